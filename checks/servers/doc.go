// Package servers tests the real program, sluice, against real Redis servers: it is
// built, and run as processes. Nothing of it is imported.
package servers
