// Package figures holds what a benchmark measured, judges it, and lays it out
// in Markdown. It is for the commands in checks/cmd only.
package figures
