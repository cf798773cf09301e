// Package monitoring has the tests of what operators load into Prometheus and Grafana, and of the page of metrics, over real
// servers.
package monitoring
