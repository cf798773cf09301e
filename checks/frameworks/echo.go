package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// EchoLimit returns echo middleware that limits the handlers behind it. It lets echo answer the errors of
// handlers first, so that limits can count by status.
func EchoLimit(limit func(http.Handler) http.Handler) echo.MiddlewareFunc {
	answer := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		}
	}
	wrapped := echo.WrapMiddleware(limit)
	return func(next echo.HandlerFunc) echo.HandlerFunc { return wrapped(answer(next)) }
}
