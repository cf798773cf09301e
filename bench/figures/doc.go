// Package figures is what the suites of the benchmark share: the keys of requests, what they measured,
// the bars, and the report in Markdown.
package figures
