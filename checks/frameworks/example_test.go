package frameworks

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v5"

	"github.com/sluicehq/sluice/httplimit"
)

// perClient returns middleware with one request an hour for each client.
func perClient() func(http.Handler) http.Handler {
	limit, err := httplimit.PerClient("1/h")
	if err != nil {
		log.Fatal(err)
	}
	return limit
}

// statuses prints the statuses of two requests.
func statuses(h http.Handler, path string) {
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(w.Code)
	}
}

func Example_chi() {
	limit := perClient()
	r := chi.NewRouter()
	r.Use(limit)
	r.Get("/", func(http.ResponseWriter, *http.Request) {})

	statuses(r, "/")
	// Output:
	// 200
	// 429
}

func Example_gin() {
	gin.SetMode(gin.ReleaseMode)
	limit := perClient()
	engine := gin.New()
	engine.GET("/", func(*gin.Context) {})
	handler := limit(engine) // for http.ListenAndServe, instead of engine.Run

	statuses(handler, "/")
	// Output:
	// 200
	// 429
}

func ExampleGinLimit() {
	limit := perClient()
	engine := gin.New()
	api := engine.Group("/api", GinLimit(limit))
	api.GET("/orders", func(*gin.Context) {})

	statuses(engine, "/api/orders")
	// Output:
	// 200
	// 429
}

func Example_echo() {
	limit := perClient()
	e := echo.New()
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	handler := limit(e) // for http.ListenAndServe, instead of e.Start

	statuses(handler, "/")
	// Output:
	// 200
	// 429
}

func ExampleEchoLimit() {
	limit := perClient()
	e := echo.New()
	api := e.Group("/api", EchoLimit(limit))
	api.GET("/orders", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })

	statuses(e, "/api/orders")
	// Output:
	// 200
	// 429
}

func ExampleFiberLimit() {
	limit := perClient()
	app := fiber.New()
	app.Use(FiberLimit(limit))
	app.Get("/", func(fiber.Ctx) error { return nil })

	for range 2 {
		answer, err := app.Test(httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.StatusCode)
		_ = answer.Body.Close()
	}
	// Output:
	// 200
	// 429
}
