package policyfile

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// ScaleOut names the programs that Sluice tells of the pressure on rules. Autoscalers read it from the
// admin listener without any setting: see docs/scale-out.md.
type ScaleOut struct {
	// Webhook is told; nil for nobody.
	Webhook *Webhook `yaml:"webhook"`
}

// Webhook is a program that is told when the pressure on a rule becomes high, and when
// it no longer is.
type Webhook struct {
	// URL is where it is told, http or https. Required.
	URL string `yaml:"url"`
	// SecretFile is a file that holds the secret that signs messages; white space around it is ignored.
	SecretFile string `yaml:"secret_file"`
	// SecretEnv is the environment variable that holds it. Give one of both.
	SecretEnv string `yaml:"secret_env"`
	// Rules are the names of those that are looked at. Default: all.
	Rules []string `yaml:"rules"`
	// Above is the pressure, demand divided by limit, from which it is high. Default: 0.8.
	Above Ratio `yaml:"above"`
	// Below is the one under which it is no longer so. Default: 0.5.
	Below Ratio `yaml:"below"`
	// For is how long it must be there to count. Default: 10s.
	For time.Duration `yaml:"for"`
	// Every is how often a pressure that stays high is told again. Default: 0, never.
	Every time.Duration `yaml:"every"`
}

// read fills in the defaults first.
func (w *Webhook) read(d *decoder, path string, n ast.Node) {
	*w = Webhook{Above: 0.8, Below: 0.5, For: 10 * time.Second}
	d.object(path, n, reflect.ValueOf(w).Elem())
}

// unknown has a remedy for what a file must not hold.
func (*Webhook) unknown(p pair) string {
	if nearest(p.name, []string{"secret", "token", "key"}) != "" {
		return "a secret has no place in this file; give secret_file or secret_env"
	}
	return ""
}

// checkScaleOut checks who is told. The URL is not shown: it may be known to few.
func (f *File) checkScaleOut(s *source) {
	w := f.ScaleOut.Webhook
	if w == nil {
		return
	}
	in := func(name string) string { return "scale_out.webhook." + name }
	target, err := url.Parse(w.URL)
	const example = "write it as in https://ops.example.com/hooks/scale"
	switch {
	case w.URL == "":
		s.follow(in("url"), "is missing", example)
	case err != nil:
		s.follow(in("url"), "is no URL", example)
	case target.Scheme != "http" && target.Scheme != "https":
		s.follow(in("url"), "is no http and no https URL", example)
	case target.Hostname() == "":
		s.follow(in("url"), "has no host", example)
	case target.User != nil:
		s.follow(in("url"), "has a user in it", "remove what is before the @; messages are signed")
	case target.Fragment != "":
		s.follow(in("url"), "has a fragment, which is not sent", "remove what follows the #")
	}
	checkSecret(s, "scale_out.webhook", "secret", w.SecretFile, w.SecretEnv)
	if w.SecretFile == "" && w.SecretEnv == "" {
		s.follow(in("secret_file"), "is missing", "give secret_file or secret_env; openssl rand -hex 32 makes a secret")
	}
	switch {
	case w.Above == 0:
		s.follow(in("above"), "is 0, which any pressure is", "give one such as 0.8, for eight tenths of what a rule gives")
	case w.Below == 0:
		s.follow(in("below"), "is 0, and no pressure is less", "give one such as 0.5")
	case w.Below > w.Above:
		s.follow(in("below"), fmt.Sprintf("is %v, more than above, %v", w.Below, w.Above), "give less, so that a pressure between the two stays what it was")
	}
	if w.Rules != nil && len(w.Rules) == 0 {
		s.follow(in("rules"), "is empty", "give the names of rules, or remove the line, which is for all")
	}
	names := make([]string, len(f.Rules))
	for i := range f.Rules {
		names[i] = f.Rules[i].Name
	}
	for i, name := range w.Rules {
		at := fmt.Sprintf("%s[%d]", in("rules"), i)
		switch {
		case !slices.Contains(names, name):
			s.follow(at, quote(name)+" is no rule", didYouMean(name, names))
		case slices.Contains(w.Rules[:i], name):
			s.follow(at, quote(name)+" is there twice", "remove one of them")
		}
	}
}
