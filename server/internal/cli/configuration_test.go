package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// generated begins the part of docs/configuration.md that TestConfigurationPage writes.
const generated = "<!-- All below is made from the schema: go test ./server/internal/cli -run TestConfigurationPage -update -->\n"

// TestConfigurationPage compares docs/configuration.md with the schema, the flags and the examples in
// server/internal/config/testdata/configuration, from which it is made. Every setting has an example there, and
// policyfile's tests load them.
func TestConfigurationPage(t *testing.T) {
	const page = "../../../docs/configuration.md"
	p := &configurationPage{t: t, uses: map[string][]string{}, examples: map[string]*yaml.Node{}, own: map[string]bool{}}
	p.read()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := bytes.Cut(old, []byte(generated))
	if !found {
		t.Fatalf("%s has no line %s", page, generated)
	}
	text := append(append(head, generated...), p.write()...)
	if *update {
		if err := os.WriteFile(page, text, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, old) {
		t.Error("docs/configuration.md is stale: run go test ./server/internal/cli -run TestConfigurationPage -update")
	}
}

// configurationPage is the page in the making.
type configurationPage struct {
	t           *testing.T
	definitions *yaml.Node
	uses        map[string][]string   // where each definition is used, by its name
	examples    map[string]*yaml.Node // of settings, as Definition.setting
	files       map[string]string     // the example files, by the definition that they show
	own         map[string]bool       // whether the example is from the file of its definition
	reads       string                // the definition of the file that is being read
}

// read reads the schema and the examples.
func (p *configurationPage) read() {
	p.t.Helper()
	var schema yaml.Node // JSON is YAML, and nodes keep the order of members
	if err := yaml.Unmarshal(policyfile.Schema(), &schema); err != nil {
		p.t.Fatal(err)
	}
	p.definitions = member(schema.Content[0], "definitions")
	p.use("File", "", map[string]bool{})
	p.files = map[string]string{}
	names, err := filepath.Glob("../config/testdata/configuration/*.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			p.t.Fatal(err)
		}
		p.files[strings.TrimSuffix(filepath.Base(name), ".yaml")] = string(text)
		var file yaml.Node
		if err := yaml.Unmarshal(text, &file); err != nil {
			p.t.Fatal(err)
		}
		p.reads = strings.TrimSuffix(filepath.Base(name), ".yaml")
		p.collect("File", file.Content[0])
	}
}

// member returns the value of a member of an object, or nil.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// settings returns the properties of a definition, and the definition's object; nil if it has none.
func (p *configurationPage) settings(name string) (properties, of *yaml.Node) {
	d := member(p.definitions, name)
	if found := member(d, "properties"); found != nil {
		return found, d
	}
	if forms := member(d, "anyOf"); forms != nil {
		for _, form := range forms.Content {
			if found := member(form, "properties"); found != nil {
				return found, form
			}
		}
	}
	return nil, nil
}

// hasSection reports whether a definition has a section on the page.
func (p *configurationPage) hasSection(name string) bool {
	properties, _ := p.settings(name)
	return properties != nil
}

// refers returns the definition that a schema refers to, by itself or as the entries of a list or mapping,
// and what follows its path there.
func refers(n *yaml.Node) (name, suffix string) {
	if ref := member(n, "$ref"); ref != nil {
		return strings.TrimPrefix(ref.Value, "#/definitions/"), ""
	}
	for _, key := range []string{"allOf", "anyOf"} {
		if all := member(n, key); all != nil {
			for _, form := range slices.Backward(all.Content) { // a list is the last form
				if name, suffix := refers(form); name != "" {
					return name, suffix
				}
			}
		}
	}
	for key, at := range map[string]string{"items": "[]", "additionalProperties": ".NAME"} {
		if of := member(n, key); of != nil && of.Kind == yaml.MappingNode {
			if name, suffix = refers(of); name != "" {
				return name, at + suffix
			}
		}
	}
	return "", ""
}

// use records the paths at which definitions are used.
func (p *configurationPage) use(name, path string, within map[string]bool) {
	p.uses[name] = append(p.uses[name], path)
	if within[name] {
		return
	}
	within[name] = true
	defer delete(within, name)
	properties, _ := p.settings(name)
	if properties == nil {
		return
	}
	for i := 0; i < len(properties.Content); i += 2 {
		if of, suffix := refers(properties.Content[i+1]); of != "" {
			p.use(of, strings.TrimPrefix(path+"."+properties.Content[i].Value+suffix, "."), within)
		}
	}
}

// collect records the settings of an example.
func (p *configurationPage) collect(definition string, n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, e := range n.Content {
			p.collect(definition, e)
		}
	case yaml.MappingNode:
		properties, _ := p.settings(definition)
		for i := 0; i < len(n.Content); i += 2 {
			name, value := n.Content[i].Value, n.Content[i+1]
			property := member(properties, name)
			if property == nil { // a short form, as overrides of a list
				p.collectShort(definition, n)
				return
			}
			key := definition + "." + name
			old, short := p.examples[key], len(flow(value)) <= longestExample
			if old == nil || short && (len(flow(old)) > longestExample || definition == p.reads && !p.own[key]) {
				p.examples[key], p.own[key] = value, definition == p.reads
			}
			of, suffix := refers(property)
			for _, v := range below(value, strings.Count(suffix, ".NAME")) {
				if of != "" {
					p.collect(of, v)
				}
			}
		}
	}
}

// below returns the values in some levels of mappings whose names are free.
func below(n *yaml.Node, levels int) (all []*yaml.Node) {
	if levels == 0 || n.Kind != yaml.MappingNode {
		return []*yaml.Node{n}
	}
	for i := 1; i < len(n.Content); i += 2 {
		all = append(all, below(n.Content[i], levels-1)...)
	}
	return all
}

// collectShort records an example of the short form of a definition: the entry of its list.
func (p *configurationPage) collectShort(definition string, n *yaml.Node) {
	properties, _ := p.settings(definition)
	if list := member(properties, "list"); list != nil {
		of, _ := refers(list)
		p.collect(of, n)
		return
	}
	p.t.Errorf("line %d of an example has what %s does not", n.Line, definition)
}

const longestExample = 60

// flow writes an example in one line.
func flow(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, e := range n.Content {
			parts[i] = flow(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		var parts []string
		for i := 0; i < len(n.Content); i += 2 {
			parts = append(parts, n.Content[i].Value+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if n.Style == yaml.DoubleQuotedStyle {
		return fmt.Sprintf("%q", n.Value)
	}
	return strings.TrimSpace(n.Value)
}

// write returns the generated part of the page.
func (p *configurationPage) write() []byte {
	var b bytes.Buffer
	p.writeFlags(&b)
	for i := 0; i < len(p.definitions.Content); i += 2 {
		if name := p.definitions.Content[i].Value; p.uses[name] != nil {
			if properties, _ := p.settings(name); properties != nil {
				p.writeSection(&b, name)
			}
		}
	}
	b.WriteString("\n## Values\n\n| type | how it is written |\n|---|---|\n")
	for i := 0; i < len(p.definitions.Content); i += 2 {
		name, d := p.definitions.Content[i].Value, p.definitions.Content[i+1]
		if properties, _ := p.settings(name); properties == nil {
			fmt.Fprintf(&b, "| %s | %s |\n", words(name), code(member(d, "description").Value))
		}
	}
	return b.Bytes()
}

// writeFlags writes the table of flags and variables.
func (p *configurationPage) writeFlags(b *bytes.Buffer) {
	b.WriteString("\n## Flags and environment variables\n\n| flag of `sluice serve` | variable | setting | meaning |\n|---|---|---|---|\n")
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(settings).register(flags)
	b.WriteString("| the argument FILE | `SLUICE_CONFIG` | | The configuration file. Without one, the server runs its quick-start policy. |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		setting := strings.NewReplacer("listen-", "listen.", "log-", "log.", "admin-", "admin.", "api-", "api.", "read-token", "api.read_token", "-", "_").Replace(f.Name)
		if f.Name == "last-good" || f.Name == "envoy-config" {
			setting = "" // a file cannot say what to do when it is bad, or where another one is
		}
		if top, _, _ := strings.Cut(setting, "."); top != "" && member(member(member(p.definitions, "File"), "properties"), top) == nil {
			p.t.Errorf("the flag %s has no setting %s", f.Name, setting)
		}
		value, usage := pflag.UnquoteUsage(f)
		if setting != "" {
			setting = "`" + setting + "`"
		}
		fmt.Fprintf(b, "| `--%s %s` | `%s` | %s | %s |\n", f.Name, strings.ToUpper(value), variable(f), setting, sentence(usage))
	})
}

// writeSection writes the section of a definition.
func (p *configurationPage) writeSection(b *bytes.Buffer, name string) {
	title := "The file"
	if path := p.uses[name][0]; path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	doc := member(member(p.definitions, name), "description").Value
	fmt.Fprintln(b, described(name, doc))
	if more := p.uses[name][1:]; len(more) > 0 {
		fmt.Fprintf(b, "\nThe same settings are in `%s`.\n", strings.Join(more, "`, `"))
	}
	live := app.LiveSettings()
	properties, of := p.settings(name)
	var required []string
	if list := member(of, "required"); list != nil {
		for _, n := range list.Content {
			required = append(required, n.Value)
		}
	}
	column, line := "", ""
	if name == "File" {
		column, line = " changes on |", "---|"
	}
	fmt.Fprintf(b, "\n| setting | type (default) |%s meaning |\n|---|---|%s---|\n", column, line)
	for i := 0; i < len(properties.Content); i += 2 {
		setting, property := properties.Content[i].Value, properties.Content[i+1]
		text, value := unitWords.ReplaceAllString(member(property, "description").Value, ""), "" // the type has the unit
		if d := member(property, "default"); d != nil {
			value = "`" + d.Value + "`"
		} else if m := defaultWords.FindStringSubmatch(text); m != nil {
			value, text = code(m[1]), strings.TrimSpace(strings.Replace(text, m[0], " ", 1))
		}
		switch of, _ := refers(property); {
		case slices.Contains(required, setting):
			value = " (required)"
		case value == "" && p.hasSection(of) && of != name:
			// The section has the defaults.
		case value != "":
			value = " (" + value + ")"
		}
		example := p.examples[name+"."+setting]
		if example == nil {
			p.t.Errorf("no file of server/internal/config/testdata/configuration gives an example of %s.%s", name, setting)
			continue
		}
		text = described(setting, text)
		if shown := flow(example); !p.own[name+"."+setting] && !isWord(property) && len(shown) <= longestExample {
			text += " Example: `" + cell(shown) + "`." // others are in the file below
		}
		if name == "File" {
			column = " restart |"
			if slices.Contains(live, setting) {
				column = " reload |"
			}
		}
		fmt.Fprintf(b, "| `%s` | %s%s |%s %s |\n", setting, p.typeOf(property), value, column, text)
	}
	for _, shows := range append([]string{name}, also[name]...) {
		if text := p.files[shows]; text != "" {
			fmt.Fprintf(b, "\n```yaml\n%s```\n", text)
		}
	}
}

// isWord reports whether a setting has only a few values, which its type lists.
func isWord(n *yaml.Node) bool {
	kind := member(n, "type")
	return member(n, "enum") != nil || member(n, "const") != nil || kind != nil && kind.Value == "boolean"
}

// also are examples that a section shows besides the one of its name.
var also = map[string][]string{"RedisStore": {"Socket"}}

var defaultWords = regexp.MustCompile(` ?\bDefault: (.+?)\.(?: |$)`)

var unitWords = regexp.MustCompile(` Unit: (.+)\.$`)

// typeOf returns the type of a setting in words.
func (p *configurationPage) typeOf(n *yaml.Node) string {
	switch {
	case member(n, "allOf") != nil:
		return p.typeOf(member(n, "allOf").Content[0])
	case member(n, "$ref") != nil:
		name := strings.TrimPrefix(member(n, "$ref").Value, "#/definitions/")
		properties, _ := p.settings(name)
		if properties == nil {
			return "[" + words(name) + "](#values)"
		}
		link := "[mapping](#" + anchor(p.uses[name][0]) + ")"
		if forms := member(member(p.definitions, name), "anyOf"); forms != nil {
			var all []string
			for _, f := range forms.Content {
				if member(f, "properties") == nil {
					all = append(all, p.typeOf(f))
				}
			}
			return strings.Join(all, " or ") + " or " + link
		}
		return link
	case member(n, "enum") != nil:
		var all []string
		for _, v := range member(n, "enum").Content {
			all = append(all, "`"+v.Value+"`")
		}
		return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
	case member(n, "const") != nil:
		return "`" + member(n, "const").Value + "`"
	case member(n, "anyOf") != nil:
		forms := member(n, "anyOf").Content
		return strings.TrimSuffix(p.typeOf(forms[0]), ", or a list") + ", or a list"
	}
	unit := ""
	if d := member(n, "description"); d != nil {
		if m := unitWords.FindStringSubmatch(d.Value); m != nil {
			unit = " (" + m[1] + ")"
		}
	}
	switch member(n, "type").Value {
	case "boolean":
		return "boolean"
	case "integer":
		return "whole number" + unit
	case "array":
		return "list of " + p.typeOf(member(n, "items"))
	case "object":
		if member(n, "additionalProperties") == nil {
			return "names, each with a value of any kind"
		}
		return "names, each with " + p.typeOf(member(n, "additionalProperties"))
	}
	return "text"
}

// words writes the name of a type as words.
func words(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "$1 $2"))
}

// anchor returns the anchor of the section of a path.
func anchor(path string) string {
	return strings.ToLower(regexp.MustCompile(`[^\w-]`).ReplaceAllString(path, ""))
}

// described makes a sentence of a description that begins with the name of what it describes.
func described(name, text string) string {
	rest, ok := strings.CutPrefix(text, name+" ")
	if ok {
		for _, verb := range []string{"is ", "are "} {
			rest = strings.TrimPrefix(rest, verb)
		}
	}
	return code(sentence(rest))
}

// sentence begins a text with a capital letter and ends it with a full stop.
func sentence(text string) string {
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

var plainCode = regexp.MustCompile(`\b[a-z0-9]+(_[a-z0-9]+)+(: local)?\b|\bstore\.redis\.local\b|"[^"]*\{[^"]*"|/[\w/]*[*{][^\s,]*[^\s,.]|/\w+/\*|\{[a-z_]*\}|\*\.\S+`)

// code marks the names of settings and patterns in a text, and links the pages that it names.
func code(text string) string {
	text = plainCode.ReplaceAllStringFunc(text, func(s string) string { return "`" + s + "`" })
	text = regexp.MustCompile(`docs/([a-z-]+\.md)`).ReplaceAllString(text, "[$1]($1)")
	return cell(text)
}

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
