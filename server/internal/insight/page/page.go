// Package page writes reports as pages: one file that needs no network and no scripts, with charts as SVG.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var frame string

//go:embed page.css
var style string

// Page is a page for documents of one kind. It is safe for concurrent use.
type Page struct{ t *template.Template }

// Must returns a page whose body is a template. The template can call the functions of this package: chart and bars write a
// Chart and Bars, and group and percent write numbers. It panics if the template is not valid.
func Must(body string) *Page {
	t := template.New("page").Funcs(template.FuncMap{
		"group": Group, "percent": Percent, "css": func() template.CSS { return template.CSS(style) }, //nolint:gosec // it is a file of this package
		"odd": func(n int) bool { return n%2 == 1 },
	})
	return &Page{template.Must(template.Must(t.Parse(frame)).New("body").Parse(body))}
}

// Write writes a page. Texts of the data stay texts, whatever they contain.
func (p *Page) Write(w io.Writer, title string, data any) error {
	var b bytes.Buffer
	if err := p.t.ExecuteTemplate(&b, "page", struct {
		Title string
		Data  any
	}{title, data}); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Group writes a number with commas between thousands.
func Group(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Percent writes a part of a whole in percent, and nothing for zero. A part that is not zero is never written as zero.
func Percent(part, whole int64) string {
	switch p := 100 * float64(part) / float64(max(1, whole)); {
	case part == 0:
		return ""
	case p < 0.01:
		return "<0.01%"
	default:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", p), "0"), ".") + "%"
	}
}
