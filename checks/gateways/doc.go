// Package gateways runs the files in examples/gateways, by the real gateways in front of a service and a real sluice,
// and sends them what clients and attackers send.
package gateways
