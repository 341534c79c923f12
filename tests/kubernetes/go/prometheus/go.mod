// The Prometheus operator's module has the definitions of its resources in it; nothing of it is built.
module mirror-ray.test/prometheus

go 1.25.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
