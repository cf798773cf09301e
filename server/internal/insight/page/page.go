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

// numbers are the functions by which all reports write numbers.
var numbers = map[string]any{"group": Group, "percent": Percent} //nolint:gochecknoglobals // a table

// Page is a page for documents of one kind. It is safe for concurrent use.
type Page struct{ t *template.Template }

// Must returns a page whose body is a template. The template can call the functions of this package: chart and bars write a
// Chart and Bars, and group and percent write numbers. It panics if the template is not valid.
func Must(body string) *Page {
	t := template.New("page").Funcs(numbers).Funcs(template.FuncMap{
		"css": func() template.CSS { return template.CSS(style) }, //nolint:gosec // it is a file of this package
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

// Percent writes a part of a whole in percent, and nothing for zero.
func Percent(part, whole int64) string {
	if part == 0 {
		return ""
	}
	return Share(float64(part) / float64(max(1, whole)))
}

// Share writes a share in percent. A share that is not zero is never written as zero.
func Share(share float64) string {
	if share > 0 && share < 0.0001 {
		return "<0.01%"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", 100*share), "0"), ".") + "%"
}
