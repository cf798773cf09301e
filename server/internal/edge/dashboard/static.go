package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// The page: plain modules that browsers load as they are.
//
//go:embed page
var pages embed.FS

// security lets the page load files of this server only, and run no other script. No other page can frame it.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the content types of the page's files, by the end of their names.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// Static returns the handler of /ui/. Its files hold no data.
func Static() http.Handler {
	return only(http.MethodGet, func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		name := strings.TrimPrefix(r.URL.Path, "/ui")
		h := w.Header()
		switch name {
		case "":
			// A proxy may serve the listener below another path, so the location is relative.
			h.Set("Location", "ui/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return nil
		case "/":
			name = "/index.html"
		}
		text, err := pages.ReadFile("page" + name)
		kind := types[path.Ext(name)]
		if err != nil || kind == "" {
			return &wire.Problem{Status: http.StatusNotFound, Title: "No such page", Detail: "There is no page at this path.", Remedy: "the page is at /ui/"}
		}
		sum := sha256.Sum256(text)
		h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", security)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Type", kind)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
		return nil
	})
}
