package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"unicode"
)

// Text writes reports of one kind for terminals. It is safe for concurrent use.
type Text struct{ t *template.Template }

// MustText returns a text by two templates, head and body, in which a tab ends a cell of a table. Tables of the head are aligned to
// the right, and tables of the body to the left. The templates can call the given functions, group and percent, and inert, which
// each text of a log or of a user needs. It panics if a template is not valid.
func MustText(text string, functions template.FuncMap) *Text {
	t := template.New("text").Funcs(numbers).Funcs(template.FuncMap{"inert": Inert}).Funcs(functions)
	return &Text{template.Must(t.Parse(text))}
}

// Write writes a text.
func (p *Text) Write(w io.Writer, data any) error {
	var b bytes.Buffer
	head, body := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight), tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	err := errors.Join(p.t.ExecuteTemplate(head, "head", data), head.Flush(), p.t.ExecuteTemplate(body, "body", data), body.Flush())
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// Inert returns a text without what terminals or readers could take for something else than text.
func Inert(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
