// Package reader reads YAML into structs, and reports every mistake with its position and a remedy.
//
// It holds no setting. A room that has settings describes them as a struct with tags: see [Fields]. The room checks
// what the types do not, and reports to the same [Source], so that all mistakes of a file are reported at once.
package reader
