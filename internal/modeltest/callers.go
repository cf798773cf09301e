package modeltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Formats are paths of the service, one for each format that has output.
var Formats = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1beta/models/gemini-x:generateContent",
	"/v1beta/models/gemini-x:streamGenerateContent?alt=sse", "/openai/deployments/d/chat/completions",
}

// Call is one call of a model.
type Call struct {
	// Path and Body are the request; Fault is what the service does, or "leave" for a client that leaves in the stream.
	Path, Body, Fault string
	// Output is what the model wants to write, and Most how much it may.
	Output, Most int64
	// Stream requests a stream.
	Stream bool
}

// newCall returns a call with lengths like in the public traces of Azure of 2024: many short ones, and a long tail.
// unbounded calls do not say how much the model may write.
func newCall(rng *rand.Rand, unbounded bool) Call {
	length := func(median, spread float64, most int64) int64 {
		return min(most, 1+int64(median*math.Exp(spread*rng.NormFloat64())))
	}
	c := Call{Path: Formats[rng.IntN(len(Formats))], Output: length(30, 1.1, 600), Stream: rng.IntN(3) > 0}
	c.Most = max(1, c.Output*int64(50+rng.IntN(200))/100)
	prompt := strings.Repeat("x", int(length(900, 1, 8000)))
	most := fmt.Sprintf(`"max_tokens":%d,`, c.Most)
	switch {
	case unbounded:
		c.Most, most = math.MaxInt64, ""
	case strings.Contains(c.Path, "responses"):
		most = fmt.Sprintf(`"max_output_tokens":%d,`, c.Most)
	case strings.Contains(c.Path, "enerateContent"):
		most = fmt.Sprintf(`"generationConfig":{"maxOutputTokens":%d},`, c.Most)
	}
	switch {
	case strings.Contains(c.Path, "enerateContent"):
		c.Stream = strings.Contains(c.Path, ":stream")
	case c.Stream:
		most += `"stream":true,`
		if strings.Contains(c.Path, "completions") {
			most += `"stream_options":{"include_usage":true},`
		}
	}
	c.Body = fmt.Sprintf(`{"model":"m%d",%s"prompt":%q}`, rng.IntN(3), most, prompt)
	faults := []string{"400", "500", "cut", "kill", "silent", "leave"}
	if rng.IntN(3) == 0 {
		c.Fault = faults[rng.IntN(len(faults))]
		if (c.Fault == "cut" || c.Fault == "leave") && !c.Stream {
			c.Fault = ""
		}
		if c.Fault == "silent" && strings.Contains(c.Path, "messages") && c.Stream {
			c.Fault = "" // its first event has a usage
		}
	}
	return c
}

// Reserved returns what a rule takes for the call before, with 4 bytes a token and an estimate of the output.
func (c *Call) Reserved(estimate int64) int64 {
	if c.Most != math.MaxInt64 {
		estimate = c.Most
	} else if strings.HasSuffix(c.Path, "/v1/completions") {
		estimate = 16 // the default of the API
	}
	return (int64(len(c.Body))+3)/4 + estimate
}

// Used returns what the service uses for the call.
func (c *Call) Used() int64 { return InputOf(c.Body) + min(c.Output, c.Most) }

// Settled returns what a rule charges for a call that was not denied, if an answer is awaited after its client has left.
func (c *Call) Settled(estimate int64) int64 {
	reserved := c.Reserved(estimate)
	switch c.Fault {
	case "400", "500":
		return 0
	case "cut":
		said := int64(0)
		if strings.Contains(c.Path, "messages") {
			said = InputOf(c.Body) + 1
		} else if n := min(c.Output, c.Most) / 2; strings.Contains(c.Path, ":stream") && n > 0 {
			said = InputOf(c.Body) + n
		}
		return max(reserved, said)
	case "kill", "silent":
		return reserved
	}
	return c.Used()
}

// Do makes the call. It returns the status, and the answer as far as the client read it. The error is of an answer that
// broke off.
func (c *Call) Do(ctx context.Context, client *http.Client, base string) (status int, body string, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set(Output, strconv.FormatInt(c.Output, 10))
	r.Header.Set(Fault, c.Fault)
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	if c.Fault == "leave" && res.StatusCode == http.StatusOK {
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		return res.StatusCode, line, err
	}
	all, err := io.ReadAll(res.Body)
	return res.StatusCode, string(all), err
}

// Result is what became of calls.
type Result struct {
	// Passed are the calls that were not denied.
	Passed []Call
	// Denied is how many were denied.
	Denied int
}

// Settled returns the sum of what is charged for the calls, and the largest charge beyond what was reserved.
func (r *Result) Settled(estimate int64) (sum, beyond int64) {
	for i := range r.Passed {
		c := &r.Passed[i]
		n := c.Settled(estimate)
		sum, beyond = sum+n, max(beyond, n-c.Reserved(estimate))
	}
	return sum, beyond
}

// Replay lets callers make calls at bases in turn, until each has made so many. A refusal without the store, by status
// 503, is an error.
func Replay(tb testing.TB, client *http.Client, bases []string, callers, each int, unbounded bool) *Result {
	tb.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	result := &Result{}
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2024))
			for j := range each {
				c := newCall(rng, unbounded)
				status, body, err := c.Do(tb.Context(), client, bases[(i+j)%len(bases)])
				mu.Lock()
				switch broken := slices.Contains([]string{"cut", "kill"}, c.Fault); {
				case status == http.StatusTooManyRequests:
					result.Denied++
				case status == 0, status == http.StatusServiceUnavailable, err != nil && !broken && c.Fault != "leave":
					tb.Errorf("%s with fault %q ended with status %d: %v %.200s", c.Path, c.Fault, status, err, body)
				default:
					result.Passed = append(result.Passed, c)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return result
}
