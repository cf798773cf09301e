package telemetry

import (
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// Settings configures the server's log.
type Settings struct {
	// Level is the least severe level that is logged. Default: info.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is the form of each line. Default: text.
	Format string `yaml:"format" oneof:"text json"`
	// Sample is how many denials are logged per second, for all rules together. The others
	// are only counted. 0 logs none. Default: 10.
	Sample int `yaml:"sample" unit:"denials per second"`
	// KeySecretFile is a file that holds the secret of the fingerprints of keys, in the log and in
	// sluice keys. Servers with the same secret have the same fingerprints. White space around it is ignored. Give
	// key_secret_file, key_secret_env or neither. Default: none; the secret is random and ends with the process.
	KeySecretFile string `yaml:"key_secret_file" path:"read"`
	// KeySecretEnv is the environment variable that holds the secret. Default: none.
	KeySecretEnv string `yaml:"key_secret_env"`
}

// Default returns the defaults of the settings.
func Default() Settings { return Settings{Level: "info", Format: "text", Sample: 10} }

// Check checks the settings, which are the section log.
func (l *Settings) Check(s *reader.Source) {
	secret.CheckSource(s, "log", "key_secret", l.KeySecretFile, l.KeySecretEnv)
}

// Fingerprinter makes the fingerprints of keys in the log. Servers with the same secret have the same ones.
func (l *Settings) Fingerprinter() (*Fingerprinter, error) {
	text, err := secret.ReadLong("log.key_secret", l.KeySecretFile, l.KeySecretEnv)
	if err != nil {
		return nil, err
	}
	return newFingerprinter(text), nil
}
