package wire

// Live is what a server does now, for operators.
type Live struct {
	// AtMS is when this was true, and StartedMS when the server started, in milliseconds of Unix time by the server's
	// clock.
	AtMS      int64  `json:"at_ms"`
	StartedMS int64  `json:"started_ms"`
	Version   string `json:"version"`
	// NotReady is why the server should get no requests; left out if it should.
	NotReady string `json:"not_ready,omitempty"`
	// Notes are the lines of the readiness probe about the store, the logs and the configuration.
	Notes []string `json:"notes"`
	// Policy changes when the rules change. Then GET /v1/rules has other words.
	Policy uint64 `json:"policy"`
	// Figures are the names of the numbers in Totals of a rule.
	Figures []string   `json:"figures"`
	Rules   []LiveRule `json:"rules"`
	// MoreRules counts the rules with the fewest denials, which are left out.
	MoreRules int `json:"more_rules,omitempty"`
	// Keys are the keys that were denied most, without their values. They are of the rule that the caller named, or of all.
	Keys     []DeniedKey `json:"keys"`
	MoreKeys bool        `json:"more_keys,omitempty"`
	// Heavy are the keys with the most allowed requests, without their values, by a random sample of one request in
	// Sampled.
	Heavy   []HeavyKey `json:"heavy"`
	Sampled int        `json:"sampled"`
	// Bans are the first bans in force, without the values of their keys.
	Bans     []Ban `json:"bans"`
	MoreBans bool  `json:"more_bans,omitempty"`
	// BansUnknown means that the store did not list the bans.
	BansUnknown bool          `json:"bans_unknown,omitempty"`
	Store       Store         `json:"store"`
	Hybrid      []HybridLimit `json:"hybrid"`
	// Reloads are the last configurations that were loaded, the latest first.
	Reloads []Reload `json:"reloads"`
	// Counted names the servers whose numbers are added, if the caller wanted all; left out for this one only. When it
	// changes, the numbers of Totals begin at other values.
	Counted string `json:"counted,omitempty"`
	// Servers are the servers that share the store in Redis, this one first; left out without Redis.
	Servers []Server `json:"servers,omitempty"`
	// MoreServers means that there are more servers than are listed. ServersUnknown is why the list may not be up to date.
	MoreServers    bool   `json:"more_servers,omitempty"`
	ServersUnknown string `json:"servers_unknown,omitempty"`
}

// Server is a server as it describes itself.
type Server struct {
	// Name is the name of its machine, and Admin the URL of its admin listener, as it was configured.
	Name      string `json:"name"`
	Admin     string `json:"admin,omitempty"`
	Version   string `json:"version,omitempty"`
	StartedMS int64  `json:"started_ms"`
	// State is this for the server that answers; answers or silent for another one, and waiting if it has not answered yet.
	State string `json:"state"`
	// SeenMS is how long ago the server wrote to Redis last, by the clock of Redis.
	SeenMS int64 `json:"seen_ms"`
	// NotReady, Notes and Breaker are as in Live, of that server, as it answered last.
	NotReady string   `json:"not_ready,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Breaker  string   `json:"breaker,omitempty"`
	// OtherRules means that the rules of the server are not the rules of the server that answers.
	OtherRules bool `json:"other_rules,omitempty"`
}

// The states of a server.
const (
	ServerThis    = "this"
	ServerWaiting = "waiting"
	ServerAnswers = "answers"
	ServerSilent  = "silent"
)

// LiveRule has what a rule did since the server started.
type LiveRule struct {
	Rule string `json:"rule"`
	// State is the State of RuleInWords. It is empty if the policy has no such rule.
	State string `json:"state,omitempty"`
	// Totals are the numbers of the metrics, in the order of Figures.
	Totals []uint64 `json:"totals"`
	// Units are the units that its requests wanted, as far as the costs were known before the requests.
	Units uint64 `json:"units"`
	// Pressure is the demand divided by what the rule allows.
	Pressure float64 `json:"pressure"`
	// Compared counts keys of the rule that its candidate decided about too, among the keys with the most denials, up
	// to 200 of each server. Freed counts the keys among them that it would never have denied.
	Compared int `json:"compared,omitempty"`
	Freed    int `json:"freed,omitempty"`
}

// HeavyKey is a key of a rule with many allowed requests.
type HeavyKey struct {
	Rule   string `json:"rule"`
	Digest string `json:"digest"`
	// Requests is estimated from the sample, for this half hour and the one before. In 19 of 20 cases it is not off by
	// more than Within.
	Requests uint64 `json:"requests"`
	Within   uint64 `json:"within"`
	FirstMS  int64  `json:"first_ms"`
	LastMS   int64  `json:"last_ms"`
}

// Store is the state of a server's store.
type Store struct {
	// Kind is memory or redis.
	Kind string `json:"kind"`
	// Keys, Bytes and Overflow are of the store in this process, or of the local fallback.
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	Overflow int64 `json:"overflow"`
	// Breaker is closed, open or half-open; left out without Redis.
	Breaker string `json:"breaker,omitempty"`
	// BreakerMS is how long ago the breaker changed its state last.
	BreakerMS int64 `json:"breaker_ms,omitempty"`
	Nodes     int   `json:"nodes,omitempty"`
	Failing   int   `json:"failing,omitempty"`
	InFlight  int   `json:"in_flight,omitempty"`
	// Answered, Failed, Late and Refused count calls: the breaker refuses.
	Answered uint64 `json:"answered,omitempty"`
	Failed   uint64 `json:"failed,omitempty"`
	Late     uint64 `json:"late,omitempty"`
	Refused  uint64 `json:"refused,omitempty"`
}

// Reload is a configuration that was loaded.
type Reload struct {
	AtMS int64 `json:"at_ms"`
	// Refused is why it is not in force; left out if it was applied.
	Refused string `json:"refused,omitempty"`
	// Changed are the settings and files that changed.
	Changed []string `json:"changed,omitempty"`
}

// Rules are the rules in force, in words.
type Rules struct {
	Policy uint64        `json:"policy"`
	Rules  []RuleInWords `json:"rules"`
}

// RuleInWords is a rule as `sluice validate` describes it.
type RuleInWords struct {
	Rule string `json:"rule"`
	// State is enforced, shadow or candidate. A rule with a candidate is enforced, too.
	State string `json:"state"`
	// Bans means that keys of the rule can be banned.
	Bans bool `json:"bans,omitempty"`
	// Numbers are the names of the numbers that an override of a key can give to each limit: rate, or max of a limit of
	// concurrency.
	Numbers []string    `json:"numbers"`
	Words   [][2]string `json:"words"`
}

// History is what a rule did in the last hour or day, in steps of equal length, the oldest first.
type History struct {
	Rule string `json:"rule,omitempty"`
	// AtMS is when this was true, in milliseconds of Unix time by the server's clock.
	AtMS int64 `json:"at_ms"`
	// EndMS is the end of the last step, by the same clock. The last step may still grow.
	EndMS  int64 `json:"end_ms"`
	StepMS int64 `json:"step_ms"`
	// Known is false for a rule without requests, and for a rule that is one too many.
	Known bool `json:"known"`
	Steps int  `json:"steps"`
	// Figures have the requests of each step by outcome. Outcomes without requests are left out.
	Figures map[string][]uint32 `json:"figures"`
}
