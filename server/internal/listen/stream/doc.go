// Package stream serves the connections of protocols other than HTTP: it accepts them, and lets them end when the
// server ends. It contains no protocol, and decides nothing.
package stream
