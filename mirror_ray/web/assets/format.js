// Numbers and times as people read them.

const UNKNOWN = "–";

/** 1234567 is 1.23 M. @param {number|null|undefined} value */
export function count(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 10_000) return Math.round(value).toLocaleString("en");
  return scaled(value, ["", " k", " M", " G", " T"]);
}

/** @param {number|null|undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return value < 1000 ? `${Math.round(value)} B` : scaled(value, [" B", " kB", " MB", " GB", " TB", " PB"]);
}

function scaled(value, units) {
  let power = 0;
  while (value >= 1000 && power < units.length - 1) { value /= 1000; power += 1; }
  return `${Number(value.toPrecision(3))}${units[power]}`;
}

/** 317 is 5 min 17 s. @param {number|null|undefined} value */
export function seconds(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 10) return `${value.toFixed(1)} s`;
  const [days, hours, minutes] = [Math.floor(value / 86400), Math.floor(value / 3600) % 24, Math.floor(value / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(value % 60)} s` : `${Math.floor(value)} s`;
}

/** An offset; -1 stands for none. @param {number|null|undefined} value */
export function offset(value) {
  return value === null || value === undefined || value < 0 ? UNKNOWN : value.toLocaleString("en");
}

/** Local time of day; the day too where it is not today. @param {number} ms */
export function time(ms) {
  const at = new Date(ms);
  const clock = at.toLocaleTimeString([], { hour12: false });
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString()} ${clock}`;
}

/** 4.13 is 4.1 ×, and 4.1 bytes became one. @param {number|null|undefined} value */
export function ratio(value) {
  return value === null || value === undefined ? UNKNOWN : `${value.toFixed(1)} ×`;
}

/** An amount of money. @param {number|null|undefined} value */
export function cost(value) {
  return value === null || value === undefined ? UNKNOWN : value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}
