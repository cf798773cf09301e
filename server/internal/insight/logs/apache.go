package logs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// apacheDirective is a directive with its argument and its letter.
var apacheDirective = regexp.MustCompile(`%[<>!,\d]*(?:\{([^}]*)\})?[<>]?(\^t[io]|[a-zA-Z%])`)

// apacheKinds are directives with what they give. Sizes that include headers are not among them.
var apacheKinds = map[string]kind{
	"%h": peer, "%a": client, "%{c}a": peer, "%r": request, "%s": status, "%b": sent, "%B": sent, "%m": method, "%U": path,
	"%q": query, "%v": hostIfNone, "%V": hostIfNone, "%{Host}i": host,
	"%t": stamp, "%{sec}t": stamp, "%{msec}t": stamp, "%{usec}t": stamp,
	"%{begin:sec}t": stamp, "%{begin:msec}t": stamp, "%{begin:usec}t": stamp,
	"%D": usecs, "%{us}T": usecs, "%{ms}T": millis, "%{s}T": seconds, "%T": seconds,
}

// apacheExact lists the directives of times and of durations, from the most exact one. A
// format with several uses the first.
var apacheExact = [][]string{
	{"%{usec}t", "%{begin:usec}t", "%{msec}t", "%{begin:msec}t", "%t", "%{sec}t", "%{begin:sec}t"},
	{"%D", "%{us}T", "%{ms}T", "%{s}T", "%T"},
}

// apache makes the format of a LogFormat.
func apache(o *Options, parameter string) (*format, error) {
	if parameter == "" {
		return nil, errors.New(`logs: the format apache needs the LogFormat, such as apache:'%h %l %u %t "%r" %>s %b %D'`)
	}
	b := newBuilder(o, "apache:"+parameter)
	text := strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\\`, `\`).Replace(parameter)
	directives := apacheDirective.FindAllStringSubmatchIndex(text, -1)
	names := make([]string, len(directives))
	used := map[string]bool{}
	for i, d := range directives {
		names[i] = "%" + text[d[4]:d[5]]
		if d[2] >= 0 {
			names[i] = "%{" + text[d[2]:d[3]] + "}" + text[d[4]:d[5]]
		}
		used[names[i]] = true
	}
	for _, exact := range apacheExact {
		found := false
		for _, name := range exact {
			used[name] = used[name] && !found
			found = found || used[name]
		}
	}
	t, from := &template{}, 0
	for i, d := range directives {
		t.literal(text[from:d[0]])
		from = d[1]
		name := names[i]
		if name == "%%" {
			t.literal("%")
			continue
		}
		f := field{kind: apacheKinds[name]}
		if !used[name] {
			f.kind = ignored
		}
		argument, letter := strings.TrimPrefix(name[:max(len(name)-2, 1)], "%{"), name[len(name)-1:]
		switch {
		case f.kind != ignored:
		case letter == "i" && argument != "" && name[1] == '{':
			f = b.named(header(argument))
		case letter == "C" && argument != "" && name[1] == '{':
			f = b.named(Name{"cookie", argument})
		case letter == "t" && apacheKinds[name] == ignored && !strings.Contains(name, "^"):
			return nil, fmt.Errorf("logs: the time %s of the LogFormat is not known; use %%t, %%{msec}t or %%{usec}t", name)
		}
		known := name
		if name[1] == '{' {
			known = argument
		}
		if name == "%t" {
			t.literal("[")
		}
		t.pieces = append(t.pieces, piece{fields: b.fields(known, f)})
		if name == "%t" {
			t.literal("]")
		}
	}
	t.literal(text[from:])
	return b.needing(t)
}
