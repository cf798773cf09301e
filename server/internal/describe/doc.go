// Package describe puts rules, traces and verdicts into plain English, and into JSON. The command line and
// the decision API use the same functions, so both say the same about the same data. It decides nothing.
package describe
