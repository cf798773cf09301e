// Package api answers other programs' questions over HTTP: may this request pass,
// and if units were reserved for it, what became of them. openapi.yaml describes every
// call, and is served at /openapi.yaml.
package api
