// Package chart has the tests of packaging/chart, of the manifests in docs/kubernetes.yaml, and of the workflows. It is a module
// of its own, so that no other module gets Helm and Kubernetes.
package chart
