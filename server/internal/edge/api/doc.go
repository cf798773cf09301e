// Package api decides for other programs over HTTP: whether a request may pass, and how reserved units end.
// openapi.yaml describes every call, and is served at /openapi.yaml.
package api
