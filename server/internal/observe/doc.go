// Package observe is the wing of what shows operators the work of the server: metrics and samples of denials, the access log,
// traces, the webhook, and the files that logs are written to.
//
// Its rooms get verdicts and texts, and decide nothing. Only app imports them.
package observe
