package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// Profile is a set of headers that report limits to clients.
type Profile uint8

// The profiles.
const (
	// ProfileIETF is RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-10.
	// RateLimit-Policy lists all enforced limits that apply to the request. RateLimit is for the
	// tightest limit; its `t` is the time until more units are available: for a bucket, the next unit.
	ProfileIETF Profile = iota
	// ProfileXRateLimit is X-RateLimit-Limit, -Remaining and -Reset.
	ProfileXRateLimit
	// ProfileXRateLimitDashed is X-Rate-Limit-Limit, -Remaining and -Reset.
	ProfileXRateLimitDashed
	// ProfileRateLimit is RateLimit-Limit, -Remaining and -Reset, of the IETF's
	// drafts up to 06.
	ProfileRateLimit
	// ProfileEnvoy is X-RateLimit-Limit with the policies of all limits, -Remaining
	// and -Reset, as Envoy writes them after draft 03.
	ProfileEnvoy
	// ProfileOpenAI is X-RateLimit-Limit-Requests, -Remaining-Requests and -Reset-Requests for the tightest limit of
	// requests, and the same with -Tokens for the tightest limit of a model's tokens, as OpenAI writes them.
	ProfileOpenAI
	// ProfileNone sets nothing but Retry-After.
	ProfileNone
)

// Reset is how the profiles without a standard write the time of a reset.
type Reset uint8

const (
	// ResetDelta is in seconds from now.
	ResetDelta Reset = iota
	// ResetUnix is a Unix time, in seconds.
	ResetUnix
)

// HeaderOptions are the settings of Headers. The zero HeaderOptions are the defaults.
type HeaderOptions struct {
	// Profile selects the headers. Default: ProfileIETF.
	Profile Profile
	// Names are other names for the limit, the remaining units and the reset, in a profile that has these three
	// headers. An empty name leaves the profile's. Default: the names of the profile.
	Names [3]string
	// Reset is the form of the time in X-RateLimit-Reset and X-Rate-Limit-Reset. Default: ResetDelta.
	// Other profiles accept no other form.
	Reset Reset
	// Jitter adds up to this time, at random, to all times in headers. So clients do not all come back
	// when a window ends. A good choice is a tenth of the window, and seconds at least, because headers
	// have whole seconds. A client that comes back at that time is still admitted: the time is never
	// earlier. Default: none.
	Jitter time.Duration
}

const mostJitter = 24 * time.Hour

// Headers writes verdicts into response headers. It is safe for concurrent use.
type Headers struct {
	o      HeaderOptions
	names  [3]string
	quotas quotas
}

// NewHeaders returns a writer of headers.
// The error names the option, and what to give.
func NewHeaders(o HeaderOptions) (*Headers, error) {
	h := &Headers{o: o}
	switch {
	case o.Profile > ProfileNone:
		return nil, fmt.Errorf("httplimit: HeaderOptions.Profile is %d; give ProfileIETF or another of the profiles", o.Profile)
	case o.Reset > ResetUnix:
		return nil, fmt.Errorf("httplimit: HeaderOptions.Reset is %d; give ResetDelta or ResetUnix", o.Reset)
	case o.Reset == ResetUnix && o.Profile != ProfileXRateLimit && o.Profile != ProfileXRateLimitDashed:
		return nil, fmt.Errorf("httplimit: HeaderOptions.Reset is ResetUnix, but only ProfileXRateLimit and ProfileXRateLimitDashed may write a Unix time")
	case o.Jitter < 0 || o.Jitter > mostJitter:
		return nil, fmt.Errorf("httplimit: HeaderOptions.Jitter is %v; give 0 to %v", o.Jitter, mostJitter)
	}
	// In canonical form, because they are used as keys of http.Header.
	h.names = [...][3]string{
		ProfileIETF:             {"Ratelimit-Policy", "Ratelimit"},
		ProfileXRateLimit:       {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
		ProfileXRateLimitDashed: {"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"},
		ProfileRateLimit:        {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
		ProfileEnvoy:            {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
		ProfileOpenAI:           {},
		ProfileNone:             {},
	}[o.Profile]
	for i, name := range o.Names {
		switch {
		case name == "":
			continue
		case o.Profile == ProfileIETF || o.Profile == ProfileOpenAI || o.Profile == ProfileNone:
			return nil, fmt.Errorf("httplimit: HeaderOptions.Names[%d] is %q, but the profile has no such header; give ProfileXRateLimit", i, name)
		case strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }):
			return nil, fmt.Errorf("httplimit: HeaderOptions.Names[%d] is %q; give the name of a header, such as X-RateLimit-Limit", i, name)
		}
		h.names[i] = http.CanonicalHeaderKey(name)
	}
	return h, nil
}

// Set sets the headers of a verdict, and Retry-After for a denial that is not for ever. The headers of
// ProfileIETF are lists: Set appends to them, so that several middlewares can add their own values.
// If a fallback decided, because the store failed, Set leaves out what remains and when it resets: it is not known.
func (h *Headers) Set(dst http.Header, v *policy.Verdict) {
	l := v.TightestLimit
	denied := !v.Allowed()
	if l == nil && !denied {
		return
	}
	var jitter time.Duration
	if h.o.Jitter > 0 {
		jitter = rand.N(h.o.Jitter + 1)
	}
	if denied {
		if wait := denial.RetryAfter(v); wait > 0 {
			dst["Retry-After"] = []string{strconv.FormatInt(seconds(wait+jitter), 10)}
		}
	}
	if l == nil {
		return
	}
	switch h.o.Profile {
	case ProfileNone:
	case ProfileIETF:
		h.setIETF(dst, v, jitter)
	case ProfileOpenAI:
		setOpenAI(dst, v, jitter)
	default:
		h.setThree(dst, v, jitter)
	}
}

func (h *Headers) setIETF(dst http.Header, v *policy.Verdict, jitter time.Duration) {
	q := h.quotas.of(v.TightestLimit)
	wait := denial.ShownWait(v)
	if v.Allowed() {
		wait = q.more(&v.Tightest, floor(v))
	}
	var space [160]byte
	text, known := space[:0], v.Known()
	if known {
		text = append(text, q.remaining...)
		text = strconv.AppendInt(text, min(v.Tightest.Remaining, maxInteger), 10)
		if wait > 0 {
			text = append(text, ";t="...)
			text = strconv.AppendInt(text, seconds(wait+jitter), 10)
		}
	}
	values := new([2]string)
	if len(v.Results) > 1 {
		end := len(text)
		text = h.appendPolicies(text, v, func(q *quota) string { return q.policy })
		both := string(text)
		values[0], values[1] = both[end:], both[:end]
	} else {
		values[0], values[1] = q.policy, string(text)
	}
	first := len(dst) == 0 // no header is there to be added to
	for i := range values {
		name := h.names[i]
		if values[i] == "" {
			continue
		}
		if first {
			dst[name] = values[i : i+1 : i+1]
		} else if there := dst[name]; len(there) > 0 {
			dst[name] = append(there[:len(there):len(there)], values[i])
		} else {
			dst[name] = values[i : i+1 : i+1]
		}
	}
}

// floor returns the floor of the request to the tightest limit.
func floor(v *policy.Verdict) int64 {
	for i := range v.Results {
		if r := &v.Results[i].Request; r.Limit == v.TightestLimit {
			return r.Floor
		}
	}
	return 0
}

// appendPolicies appends the items of all limits that are enforced.
func (h *Headers) appendPolicies(dst []byte, v *policy.Verdict, item func(*quota) string) []byte {
	begin := len(dst)
	for i := range v.Results {
		if v.Results[i].Request.Shadow {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ", "...)
		}
		dst = append(dst, item(h.quotas.of(v.Results[i].Request.Limit))...)
	}
	return dst
}

func (h *Headers) setThree(dst http.Header, v *policy.Verdict, jitter time.Duration) {
	d := &v.Tightest
	wait := d.ResetAfter
	if !v.Allowed() && d.RetryAfter > 0 {
		// Retry-After must not be earlier than this time.
		wait = d.RetryAfter
	}
	if wait > 0 {
		wait += jitter
	}
	var space [160]byte
	capacity, shown := d.Limit, len(h.names)
	if !v.Known() {
		capacity, shown = v.TightestLimit.Capacity(), 1
	}
	text := strconv.AppendInt(space[:0], capacity, 10)
	if h.o.Profile == ProfileEnvoy {
		text = append(text, ", "...)
		text = h.appendPolicies(text, v, func(q *quota) string { return q.envoy })
	}
	limit := len(text)
	text = strconv.AppendInt(text, d.Remaining, 10)
	remaining := len(text)
	if h.o.Reset == ResetUnix {
		now := time.Now()
		at := now.Add(wait)
		unix := at.Unix()
		if at.Nanosecond() > 0 {
			unix++
		}
		text = strconv.AppendInt(text, unix, 10)
	} else {
		text = strconv.AppendInt(text, seconds(wait), 10)
	}
	all := string(text)
	values := &[3]string{all[:limit], all[limit:remaining], all[remaining:]}
	for i := range values[:shown] {
		dst[h.names[i]] = values[i : i+1 : i+1]
	}
}

// setOpenAI sets the headers of ProfileOpenAI. Limits of calls in flight, and of prices, have none.
func setOpenAI(dst http.Header, v *policy.Verdict, jitter time.Duration) {
	var tightest [2]*policy.LimitResult
	kinds := [...]string{"Requests", "Tokens"}
	for i := range v.Results {
		m := &v.Results[i]
		kind, known := 0, v.Err == nil && !m.Decision.Degraded && m.Role == policy.RoleEnforced && m.Listed == policy.NotListed
		c := policy.Cost{Source: policy.CostConstant}
		if m.Rule != nil {
			c = m.Rule.Cost
		}
		switch {
		case !known || m.Request.Limit.IsConcurrency():
			continue
		case c.Source == policy.CostModel && len(c.Model.Prices) == 0:
			kind = 1
		case c.Source != policy.CostConstant:
			continue
		}
		if tightest[kind] == nil || m.Decision.Remaining < tightest[kind].Decision.Remaining {
			tightest[kind] = m
		}
	}
	for kind, m := range tightest {
		if m == nil {
			continue
		}
		reset := m.Decision.ResetAfter
		if !m.Decision.Allowed && m.Decision.RetryAfter > 0 {
			reset = m.Decision.RetryAfter // Retry-After must not be earlier than this time
		}
		if reset > 0 {
			reset += jitter
		}
		dst["X-Ratelimit-Limit-"+kinds[kind]] = []string{strconv.FormatInt(m.Decision.Limit, 10)}
		dst["X-Ratelimit-Remaining-"+kinds[kind]] = []string{strconv.FormatInt(m.Decision.Remaining, 10)}
		dst["X-Ratelimit-Reset-"+kinds[kind]] = []string{(reset + time.Millisecond - 1).Truncate(time.Millisecond).String()}
	}
}

// maxInteger is the largest Integer of a structured field, RFC 9651.
const maxInteger = 999_999_999_999_999

// appendString appends a String of RFC 9651. It holds only printable ASCII:
// all other bytes, above all line breaks, are percent-encoded.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
