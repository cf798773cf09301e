// Package figures is what the commands of checks/cmd that measure have in common:
// their flags, what they measured, how it is judged, and how it is laid out in
// Markdown.
package figures
