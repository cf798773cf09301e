package logs

import "strings"

// columns reads lines whose fields a line #Fields names, in W3C's extended format: a template with tabs or spaces between fields.
type columns struct {
	lineReader
	b      *builder
	byName map[string][]field
	header string
	end    string // of a column: a tab, or a space if no line has a tab; empty before the first line
}

// cloudfrontFields are the columns of CloudFront's standard logs, for files without their first lines.
const cloudfrontFields = `date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end`

// otherFields says that the columns of a file change.
const otherFields = "its fields are not the fields of the lines before; split the file here"

func (c *columns) when(line string, rec *Record) (why string) {
	if line == "" || line[0] == '#' {
		header, found := strings.CutPrefix(line, "#Fields:")
		if found && c.end != "" && header != c.header {
			return otherFields
		}
		if found {
			c.header = strings.Clone(header)
		}
		return noLine
	}
	if tabs := strings.IndexByte(line, '\t') >= 0; c.end == "" || tabs && c.end == " " {
		c.use(tabs)
	}
	return c.lineReader.when(line, rec)
}

func (c columns) clone() parser { return &c }

// use makes the template. Lines can have further columns.
func (c *columns) use(tabs bool) {
	t := &template{}
	c.end = " "
	if tabs {
		c.end = "\t"
	}
	for _, name := range strings.Fields(c.header) {
		t.pieces = append(t.pieces, piece{fields: c.byName[name], end: c.end})
	}
	t.pieces = append(t.pieces, piece{})
	c.lineReader = *t.reader(c.b, len(t.pieces)-1)
}

// fromColumns makes the format of lines below a line #Fields, which the first lines may have.
func fromColumns(b *builder, text string, first []string) (*format, error) {
	for _, line := range first {
		if header, found := strings.CutPrefix(line, "#Fields:"); found {
			text = strings.Clone(header)
			break
		}
	}
	own := &columns{b: b, byName: map[string][]field{}, header: text}
	for _, name := range strings.Fields(text) {
		own.byName[name] = b.fields(name)
	}
	return b.format(own)
}
