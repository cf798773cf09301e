package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// GinLimit returns a gin handler that limits the handlers behind it.
func GinLimit(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		before, passed := c.Writer, false
		defer func() { c.Writer = before }()
		limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request, c.Writer = r, ginWriter{before, w}
			c.Next()
		})).ServeHTTP(before, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// ginWriter is gin's writer, whose output goes through the middleware's writer.
type ginWriter struct {
	gin.ResponseWriter
	w http.ResponseWriter
}

func (w ginWriter) Write(p []byte) (int, error)       { return w.w.Write(p) }
func (w ginWriter) WriteString(s string) (int, error) { return w.w.Write([]byte(s)) }
func (w ginWriter) WriteHeader(status int)            { w.w.WriteHeader(status) }
func (w ginWriter) Flush()                            { _ = http.NewResponseController(w.w).Flush() }
