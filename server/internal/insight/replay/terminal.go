package replay

import (
	_ "embed"
	"io"
	"strings"
	"text/template"

	"github.com/sluicehq/sluice/server/internal/insight/page"
)

//go:embed report.txt
var lines string

//nolint:gochecknoglobals // a template that a test executes
var terminal = page.MustText(lines, template.FuncMap{"sparkline": sparkline})

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error { return terminal.Write(w, r) }

// sparkline draws counts with eight heights. A count that is not zero is never drawn as zero.
func sparkline(counts []int64) string {
	const width = 40
	cells := make([]int64, min(width, len(counts)))
	var most int64
	for i, n := range counts {
		at := i * len(cells) / len(counts)
		cells[at] += n
		most = max(most, cells[at])
	}
	var b strings.Builder
	for _, n := range cells {
		if n == 0 {
			b.WriteRune('·')
		} else {
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
		}
	}
	return b.String()
}
