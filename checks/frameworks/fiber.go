package frameworks

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v3"
)

// FiberLimit returns a fiber handler that limits the handlers behind it.
func FiberLimit(limit func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		came, err := fiberRequest(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		passed, answer := false, &fiberAnswer{header: http.Header{}, status: http.StatusOK}
		limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			_, _ = io.Copy(io.Discard, r.Body) // fiber has read it
			pass(c, came.Header, r.Header)
			answer.sendHeader(c)
			err = c.Next()
			for name, value := range c.Response().Header.All() {
				w.Header().Set(string(name), string(value))
			}
			var failed *fiber.Error
			switch {
			case errors.As(err, &failed):
				w.WriteHeader(failed.Code)
			case err != nil:
				w.WriteHeader(http.StatusInternalServerError)
			default:
				w.WriteHeader(c.Response().StatusCode())
			}
		})).ServeHTTP(answer, came)
		if passed {
			return err
		}
		answer.sendHeader(c)
		return c.Status(answer.status).Send(answer.body.Bytes())
	}
}

// fiberRequest copies a request, because fiber reuses the memory of its own.
func fiberRequest(c fiber.Ctx) (*http.Request, error) {
	target, err := url.ParseRequestURI(string(c.Request().RequestURI()))
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: string(c.Request().Header.Method()), URL: target, Host: string(c.Request().Host()), ProtoMajor: 1, ProtoMinor: 1,
		RemoteAddr: c.RequestCtx().RemoteAddr().String(), Header: http.Header{},
		ContentLength: int64(len(c.Request().Body())), Body: io.NopCloser(bytes.NewReader(c.Request().Body())),
	}
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value)) // all lines of a header
	}
	return r.WithContext(c.Context()), nil
}

// pass gives fiber's request the headers that the middleware has removed or set.
func pass(c fiber.Ctx, came, now http.Header) {
	for name := range came {
		if now[name] == nil {
			c.Request().Header.Del(name)
		}
	}
	for name, lines := range now {
		if !slices.Equal(lines, came[name]) {
			c.Request().Header.Set(name, lines[0])
		}
	}
}

// fiberAnswer keeps the headers of the middleware, and its answer if it refuses a request.
type fiberAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *fiberAnswer) Header() http.Header         { return a.header }
func (a *fiberAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }
func (a *fiberAnswer) WriteHeader(status int)      { a.status = status }

// sendHeader copies the headers of the middleware.
func (a *fiberAnswer) sendHeader(c fiber.Ctx) {
	for name, lines := range a.header {
		for _, line := range lines {
			c.Response().Header.Add(name, line) // another limit may have added its own
		}
	}
}
