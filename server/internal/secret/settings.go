package secret

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// TLS holds the certificates for an https upstream.
type TLS struct {
	// CA is a file of certificates, in PEM, to trust instead of the system's. Default: the system's.
	CA string `yaml:"ca" path:"read"`
	// Cert is the file of Sluice's own certificate, in PEM. Give cert and key, or neither. Default: none.
	Cert string `yaml:"cert" path:"read"`
	// Key is the file of the private key of cert, in PEM. Default: none.
	Key string `yaml:"key" path:"read"`
	// ServerName is the name to expect in the upstream's certificate. Default: the host of the URL.
	ServerName string `yaml:"server_name"`
	// Insecure trusts any certificate. Use it only in tests. Default: false.
	Insecure bool `yaml:"insecure_skip_verify"`
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckSource checks where a secret comes from. A faulty value may be the secret
// itself, so no error shows it.
func CheckSource(s *reader.Source, path, name, file, env string) {
	if file != "" && env != "" {
		s.Follow(path+"."+name+"_env", fmt.Sprintf("is given, and %s_file is too", name), "give one of them")
	}
	if s.Has(path+"."+name+"_file") && file == "" {
		s.Follow(path+"."+name+"_file", "is empty", "give the path of a file, or remove the line")
	}
	if env == "" && !s.Has(path+"."+name+"_env") {
		return
	}
	if !variableName.MatchString(env) {
		whose := path[strings.LastIndex(path, ".")+1:] // redis, webhook
		s.Follow(path+"."+name+"_env", "is not a name of an environment variable", "give only the name, such as "+strings.ToUpper(whose+"_"+name))
	}
}
