// Package describe puts rules, traces and verdicts into plain English, and into JSON. The command
// line and the decision API use the same functions, so both describe the same data in the same
// words. It decides nothing.
package describe
