package frameworks

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	fiberrecover "github.com/gofiber/fiber/v3/middleware/recover"
	echo4 "github.com/labstack/echo/v4"
	echo4middleware "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// service is the same service in each framework: /ok, /fails (401 by the framework's error), /panics,
// and /holds, which waits.
type service struct {
	limit   func(http.Handler) http.Handler
	handled atomic.Int64
	holding chan struct{} // gets a value when a request is held
	release chan struct{}
	user    atomic.Value // what the handler of /ok got
	marks   atomic.Value
}

// ok is the work of /ok.
func (s *service) ok(user, marks string) string {
	s.handled.Add(1)
	s.user.Store(user)
	s.marks.Store(marks)
	return "hello"
}

func (s *service) hold() {
	s.holding <- struct{}{}
	<-s.release
}

func (s *service) gin(whole bool) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
	if !whole {
		engine.Use(GinLimit(s.limit))
	}
	engine.GET("/ok", func(c *gin.Context) {
		c.String(http.StatusOK, s.ok(strings.Join(c.Request.Header["X-User"], "+"), strings.Join(c.Request.Header["Sluice-Marked"], "+")))
	})
	engine.GET("/fails", func(c *gin.Context) { c.AbortWithStatus(http.StatusUnauthorized) })
	engine.GET("/panics", func(*gin.Context) { panic("a bug") })
	engine.GET("/holds", func(*gin.Context) { s.hold() })
	if whole {
		return s.limit(engine)
	}
	return engine
}

// recovered answers the panics of a handler, as chi's Recoverer does, and logs nothing.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *service) chi() http.Handler {
	r := chi.NewRouter()
	r.Use(recovered, s.limit)
	r.Get("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, s.ok(strings.Join(r.Header["X-User"], "+"), strings.Join(r.Header["Sluice-Marked"], "+")))
	})
	r.Get("/fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	r.Get("/panics", func(http.ResponseWriter, *http.Request) { panic("a bug") })
	r.Get("/holds", func(http.ResponseWriter, *http.Request) { s.hold() })
	return r
}

func (s *service) echo(whole bool) http.Handler {
	e := echo.New()
	e.Use(echomiddleware.Recover())
	if !whole {
		e.Use(EchoLimit(s.limit))
	}
	e.GET("/ok", func(c *echo.Context) error {
		return c.String(http.StatusOK, s.ok(strings.Join(c.Request().Header["X-User"], "+"), strings.Join(c.Request().Header["Sluice-Marked"], "+")))
	})
	e.GET("/fails", func(*echo.Context) error { return echo.ErrUnauthorized })
	e.GET("/panics", func(*echo.Context) error { panic("a bug") })
	e.GET("/holds", func(c *echo.Context) error {
		s.hold()
		return c.NoContent(http.StatusOK)
	})
	if whole {
		return s.limit(e)
	}
	return e
}

// echo4 is a service of the version before, where c.Error answers an error.
func (s *service) echo4() http.Handler {
	e := echo4.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(echo4middleware.Recover(), echo4.WrapMiddleware(s.limit), func(next echo4.HandlerFunc) echo4.HandlerFunc {
		return func(c echo4.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		}
	})
	e.GET("/ok", func(c echo4.Context) error {
		return c.String(http.StatusOK, s.ok(strings.Join(c.Request().Header["X-User"], "+"), strings.Join(c.Request().Header["Sluice-Marked"], "+")))
	})
	e.GET("/fails", func(echo4.Context) error { return echo4.ErrUnauthorized })
	e.GET("/panics", func(echo4.Context) error { panic("a bug") })
	e.GET("/holds", func(c echo4.Context) error {
		s.hold()
		return c.NoContent(http.StatusOK)
	})
	return e
}

// free returns a limit that no test reaches. It adds its own headers.
func free() func(http.Handler) http.Handler {
	limit, err := httplimit.PerClient("1000/s")
	if err != nil {
		panic(err)
	}
	return limit
}

func (s *service) fiber() *fiber.App {
	app := fiber.New()
	app.Use(fiberrecover.New(), FiberLimit(free()), FiberLimit(s.limit))
	app.Get("/ok", func(c fiber.Ctx) error {
		var user, marks []string
		for name, value := range c.Request().Header.All() {
			switch string(name) {
			case "X-User":
				user = append(user, string(value))
			case "Sluice-Marked":
				marks = append(marks, string(value))
			}
		}
		return c.SendString(s.ok(strings.Join(user, "+"), strings.Join(marks, "+")))
	})
	app.Get("/fails", func(fiber.Ctx) error { return fiber.ErrUnauthorized })
	app.Get("/panics", func(fiber.Ctx) error { panic("a bug") })
	app.Get("/holds", func(c fiber.Ctx) error {
		s.hold()
		return nil
	})
	return app
}

// eachFramework runs a test for a service in each framework, with limits that make returns.
func eachFramework(t *testing.T, limits func() *httplimit.Decider, test func(t *testing.T, s *service, address string)) {
	t.Helper()
	for name, build := range map[string]func(*service) http.Handler{
		"gin":        func(s *service) http.Handler { return s.gin(false) },
		"whole gin":  func(s *service) http.Handler { return s.gin(true) },
		"chi":        (*service).chi,
		"echo":       func(s *service) http.Handler { return s.echo(false) },
		"whole echo": func(s *service) http.Handler { return s.echo(true) },
		"echo 4":     (*service).echo4,
		"fiber":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			limit, err := httplimit.New(limits(), httplimit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := &service{limit: limit.Wrap, holding: make(chan struct{}, 9), release: make(chan struct{})}
			if build != nil {
				server := httptest.NewServer(build(s))
				t.Cleanup(server.Close)
				test(t, s, server.URL)
				return
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			app, served := s.fiber(), make(chan error, 1)
			go func() { served <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
			t.Cleanup(func() {
				if err := app.Shutdown(); err != nil {
					t.Error(err)
				}
				<-served
			})
			test(t, s, "http://"+l.Addr().String())
		})
	}
}

// answer is what a client gets.
type answer struct {
	status int
	header http.Header
	body   string
}

// get returns the answer to a request with headers, given as names and values.
func get(t *testing.T, address string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func last(lines []string) string { return strings.Join(lines[max(0, len(lines)-1):], "") }

// want fails the test unless requests are answered with statuses, one by one.
func want(t *testing.T, address string, statuses ...int) {
	t.Helper()
	for i, status := range statuses {
		if a := get(t, address); a.status != status {
			t.Fatalf("request %d is answered with %d, want %d: %s", i, a.status, status, a.body)
		}
	}
}

func perDay(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})}
}

// ruled returns a function that makes a decider by rules, with a store of its own.
func ruled(rules ...policy.Rule) func() *httplimit.Decider {
	return func() *httplimit.Decider {
		store, err := memory.New(memory.Options{})
		if err != nil {
			panic(err)
		}
		p, err := policy.New(policy.Options{Rules: rules})
		if err != nil {
			panic(err)
		}
		d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
		if err != nil {
			panic(err)
		}
		return d
	}
}

// A refusal is the middleware's, and does not reach the handler.
func TestRefusalsDoNotReachTheHandler(t *testing.T) {
	eachFramework(t, ruled(policy.Rule{Name: "api", Key: []policy.Part{policy.ClientIP()}, Limits: perDay(2)}), func(t *testing.T, s *service, address string) {
		for _, rest := range []string{"1", "0"} {
			a := get(t, address+"/ok", "X-Forwarded-For", "203.0.113."+rest)
			if a.status != http.StatusOK || a.body != "hello" || !strings.HasPrefix(last(a.header["Ratelimit"]), `"api";r=`+rest) {
				t.Errorf("the answer is %v", a)
			}
		}
		if n := len(get(t, address+"/ok").header["Ratelimit"]); strings.HasSuffix(t.Name(), "/fiber") && n != 2 {
			t.Errorf("two limits report %d times", n)
		}
		a := get(t, address+"/ok")
		if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `"violated-policies":["api"]`) || a.header.Get("Retry-After") != "43200" ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("the refusal is %v", a)
		}
		if s.handled.Load() != 2 {
			t.Errorf("%d requests were handled", s.handled.Load())
		}
	})
}

// Limits count by the status of errors that handlers return to the framework.
func TestCountsByStatus(t *testing.T) {
	rule := policy.Rule{Name: "failures", Key: []policy.Part{policy.ClientIP()}, Limits: perDay(2), CountStatus: []policy.StatusRange{policy.Status(401)}}
	eachFramework(t, ruled(rule), func(t *testing.T, _ *service, address string) {
		want(t, address+"/ok", 200, 200, 200)
		want(t, address+"/fails", 401)
		want(t, address+"/ok", 200)
		want(t, address+"/fails", 401, 429)
	})
}

// A lease lasts as long as the handler, also if it panics.
func TestLeasesLastAsLongAsHandlers(t *testing.T) {
	rule := policy.Rule{Name: "one", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})}}
	eachFramework(t, ruled(rule), func(t *testing.T, s *service, address string) {
		want(t, address+"/panics", 500)
		done := make(chan struct{})
		go func() {
			defer close(done)
			want(t, address+"/holds", 200)
		}()
		<-s.holding
		want(t, address+"/ok", 429, 429)
		close(s.release)
		<-done
		want(t, address+"/ok", 200)
	})
}

// Clients cannot send marks, handlers get the marks of rules, and repeated headers of keys are refused.
func TestHeadersOfRequests(t *testing.T) {
	rules := ruled(
		policy.Rule{Name: "odd", Always: true, WhenLimited: policy.LimitedAction{Action: policy.Mark}, Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Odd"}}}},
		policy.Rule{Name: "user", Key: []policy.Part{policy.Header("X-User")}, Limits: perDay(9)},
	)
	eachFramework(t, rules, func(t *testing.T, s *service, address string) {
		get(t, address+"/ok", "X-User", "a", "Sluice-Marked", "me", "Sluice-Marked", "me too")
		if s.user.Load() != "a" || s.marks.Load() != "" {
			t.Errorf("the handler got the user %v and the marks %v", s.user.Load(), s.marks.Load())
		}
		get(t, address+"/ok", "X-User", "a", "Sluice-Marked", "me", "X-Odd", "1")
		if s.marks.Load() != "odd" {
			t.Errorf("the handler got the marks %v", s.marks.Load())
		}
		if a := get(t, address+"/ok", "X-User", "a", "X-User", "b"); a.status != http.StatusBadRequest {
			t.Errorf("two users: %v", a)
		}
	})
}

// The adaptor of fiber has the faults that the page lists.
func TestAdaptorOfFiberHasTheListedFaults(t *testing.T) {
	rule := policy.Rule{Name: "one", Key: []policy.Part{policy.Header("X-User")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})}}
	limit, err := httplimit.New(ruled(rule)(), httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New()
	app.Use(adaptor.HTTPMiddleware(limit.Wrap))
	app.Get("/", func(c fiber.Ctx) error {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-User", "b")
		second := httptest.NewRecorder()
		limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(second, r)
		return c.SendString(fmt.Sprint(c.Get("X-User"), c.Get("Sluice-Marked"), second.Code))
	})
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header = http.Header{"X-User": {"a", "b"}, "Sluice-Marked": {"me"}}
	answer, err := app.Test(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || string(body) != "bme200" {
		t.Errorf("the adaptor has other faults now, so correct the page: %s, %v", body, err)
	}
}

// TestSnippetsOfThePageCompile finds the Go code of docs/frameworks.md, line for line, in this package.
func TestSnippetsOfThePageCompile(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		code.WriteString(trimmed(t, file))
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(trimmed(t, "../../docs/frameworks.md"), -1)
	if len(snippets) < 5 {
		t.Errorf("the page has %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(code.String(), s[1]) {
			t.Errorf("no file has this snippet:\n%s", s[1])
		}
	}
}

// trimmed returns the lines of a file without their indentation.
func trimmed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
