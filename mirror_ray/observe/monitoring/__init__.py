"""What a Prometheus and a Grafana are given: alert rules, recording rules with MM2's names, dashboards.

Made here, kept as files under ``deploy/``; ``python -m mirror_ray.observe.monitoring`` writes them.
"""
