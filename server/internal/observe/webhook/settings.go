package webhook

import (
	"fmt"
	"net/url"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// Settings is a program that receives a message when the pressure on a rule becomes high, and when
// it ends. The pressure is the demand divided by the limit.
type Settings struct {
	// URL is where messages are sent, http or https. Required.
	URL string `yaml:"url"`
	// SecretFile is a file that holds the secret that signs messages. White space around it is
	// ignored. Give secret_file or secret_env.
	SecretFile string `yaml:"secret_file" path:"read"`
	// SecretEnv is the environment variable that holds the secret.
	SecretEnv string `yaml:"secret_env"`
	// Rules are the names of the rules whose pressure is watched. Default: all.
	Rules []string `yaml:"rules"`
	// Above is the pressure from which it is high. Default: 0.8.
	Above reader.Ratio `yaml:"above"`
	// Below is the pressure below which it is no longer high. Default: 0.5.
	Below reader.Ratio `yaml:"below"`
	// For is how long the pressure must last before a message is sent. Default: 10s.
	For time.Duration `yaml:"for"`
	// Every is how often the message is repeated while the pressure stays high. 0 means never. Default: 0s.
	Every time.Duration `yaml:"every"`
}

// SetDefaults implements [reader.Defaulter].
func (w *Settings) SetDefaults() { *w = Settings{Above: 0.8, Below: 0.5, For: 10 * time.Second} }

// Unknown has a remedy for secrets, which a file must not contain.
func (*Settings) Unknown(name, text string) string {
	if reader.Nearest(name, []string{"secret", "token", "key"}) != "" {
		return "a secret does not belong in this file; give secret_file or secret_env"
	}
	return ""
}

// Check checks the settings, except the names of rules. Errors do not show the URL, which may be secret.
func (w *Settings) Check(s *reader.Source) {
	in := func(name string) string { return "scale_out.webhook." + name }
	target, err := url.Parse(w.URL)
	const example = "write it as in https://ops.example.com/hooks/scale"
	switch {
	case w.URL == "":
		s.Follow(in("url"), "is missing", example)
	case err != nil:
		s.Follow(in("url"), "is not a URL", example)
	case target.Scheme != "http" && target.Scheme != "https":
		s.Follow(in("url"), "is neither an http nor an https URL", example)
	case target.Hostname() == "":
		s.Follow(in("url"), "has no host", example)
	case target.User != nil:
		s.Follow(in("url"), "has a user in it", "remove what is before the @; messages are signed")
	case target.Fragment != "":
		s.Follow(in("url"), "has a fragment, which is not sent", "remove what follows the #")
	}
	secret.CheckSource(s, "scale_out.webhook", "secret", w.SecretFile, w.SecretEnv)
	if w.SecretFile == "" && w.SecretEnv == "" {
		s.Follow(in("secret_file"), "is missing", "give secret_file or secret_env; openssl rand -hex 32 makes a secret")
	}
	switch {
	case w.Above == 0:
		s.Follow(in("above"), "is 0, which any pressure reaches", "give one such as 0.8, for eight tenths of what a rule gives")
	case w.Below == 0:
		s.Follow(in("below"), "is 0, and no pressure is less", "give one such as 0.5")
	case w.Below > w.Above:
		s.Follow(in("below"), fmt.Sprintf("is %v, more than above, %v", w.Below, w.Above), "give less, so that a pressure between the two stays what it was")
	}
	if w.Rules != nil && len(w.Rules) == 0 {
		s.Follow(in("rules"), "is empty", "give the names of rules, or remove the line for all")
	}
}

// Secret reads the secret that signs messages; it is empty without a webhook.
func (w *Settings) Secret() (string, error) {
	if w == nil {
		return "", nil
	}
	const setting = "scale_out.webhook.secret"
	key, err := secret.Read(setting, w.SecretFile, w.SecretEnv)
	if err != nil {
		return "", err
	}
	if err := checkSecret(key); err != nil {
		end := "_env"
		if w.SecretFile != "" {
			end = "_file"
		}
		return "", secret.Mistake(setting+end, err.Error(), "")
	}
	return key, nil
}
