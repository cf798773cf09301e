// Package webhook tells a program of the operator's when the pressure on rules has
// become high, and when it has gone, in signed messages.
package webhook
