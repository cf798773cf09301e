// Package observe counts and logs decisions, for App. Its folder is the wing of what shows operators the work of the
// server: metrics and samples of denials, the access log, the audit log, traces, the webhook, lines that could be many,
// and the files of logs.
//
// Its rooms get verdicts and texts, and decide nothing. All other wings may report to them; they import no room that
// they observe.
package observe
