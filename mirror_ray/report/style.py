"""How a report's page looks: light or dark as the reader's system is, narrow or wide, and on paper."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2330; --muted: #5b6675; --edge: #dde2e9; --grid: #e6eaf0;
  --series-1: #1f6feb; --series-2: #b45309; --series-3: #0f766e; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141a; --card: #181e27; --text: #e6ebf2; --muted: #9aa7b8; --edge: #2a3341; --grid: #27303d;
    --series-1: #6ea8fe; --series-2: #f0a35e; --series-3: #4fd1c5; --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 10px; } h3 { font-size: 15px; margin: 0 0 6px; }
p { margin: 0 0 10px; max-width: 80ch; } .muted, .when { color: var(--muted); } .bad { color: var(--bad); }
.lead { font-size: 17px; margin-top: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 12px; margin: 20px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 14px 16px; }
.tile b { display: block; font-size: 24px; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span, .tile small { display: block; color: var(--muted); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 12px; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--text); }
svg .muted { fill: var(--muted); } .grid { stroke: var(--grid); stroke-width: 1; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .area { opacity: 0.14; stroke: none; }
.bar { fill: var(--series-1); } .hover { fill: transparent; } .hover:hover { fill: var(--text); fill-opacity: 0.08; }
.line.s1 { stroke: var(--series-1); } .line.s2 { stroke: var(--series-2); } .line.s3 { stroke: var(--series-3); }
.line.s2 { stroke-dasharray: 6 3; } .line.s3 { stroke-dasharray: 2 3; }
.area.s1, .dot.s1 { fill: var(--series-1); } .area.s2, .dot.s2 { fill: var(--series-2); }
.area.s3, .dot.s3 { fill: var(--series-3); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 4px 0 6px; padding: 0; }
.card .muted, .legend { font-size: 13px; } .card p { margin: 0; }
.legend i { display: inline-block; width: 18px; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
.legend .s1 { border-color: var(--series-1); } .legend .s2 { border-color: var(--series-2); border-top-style: dashed; }
.legend .s3 { border-color: var(--series-3); border-top-style: dotted; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--edge); }
thead th { border-top: 0; color: var(--muted); font-weight: 600; }
th:first-child, td:first-child, .left { text-align: left; }
td.name { max-width: 280px; overflow: hidden; text-overflow: ellipsis; }
td.wrap { white-space: normal; min-width: 260px; }
dl { display: grid; grid-template-columns: minmax(140px, 220px) 1fr; gap: 8px 18px; margin: 0; }
dt { font-weight: 600; } dd { margin: 0; max-width: 80ch; overflow-wrap: anywhere; }
details { margin-top: 12px; } summary { cursor: pointer; } code { font-size: 0.93em; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  main { padding: 16px 12px 40px; } h1 { font-size: 22px; } dl { grid-template-columns: 1fr; gap: 2px; }
  dd { margin-bottom: 10px; } .tiles { grid-template-columns: 1fr 1fr; } .tile b { font-size: 20px; }
  svg text { font-size: 15px; }
}
@media print { body { background: #fff; } .tile, .card, .scroll { break-inside: avoid; } }
"""
