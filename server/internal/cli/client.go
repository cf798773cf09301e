package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/wire"
)

const (
	// defaultServer is the default address of the admin listener.
	defaultServer = "http://127.0.0.1:9090"
	// answerTime is how long a server may take to answer.
	answerTime = 30 * time.Second
	// maxAnswer bounds the bytes that are read of an answer.
	maxAnswer = 16 << 20
)

// client calls a running server. Its flags are the address of the server and the admin token.
type client struct {
	flags          *pflag.FlagSet
	server         target
	ca, cert, key  string
	adminTokenFile string
}

// register adds the flags to a command.
func (c *client) register(cmd *cobra.Command) {
	c.flags, c.server = pflag.NewFlagSet("client", pflag.ContinueOnError), defaultServer
	c.flags.Var(&c.server, "server", "`URL` of the running server, or unix:PATH: the admin listener, or the API with an admin token")
	c.flags.StringVar(&c.ca, "ca", "", "`FILE` with the authorities of the server's certificate (default the authorities of the system)")
	c.flags.StringVar(&c.cert, "cert", "", "`FILE` with a client certificate, for a listener with client_ca")
	c.flags.StringVar(&c.key, "key", "", "`FILE` with the private key of the certificate")
	c.flags.StringVar(&c.adminTokenFile, "admin-token-file", "", "`FILE` that holds the admin token")
	cmd.Flags().AddFlagSet(c.flags)
	cmd.Flags().SortFlags = false
}

// call makes a call, and reads the answer into a value.
func (c *client) call(ctx context.Context, method, path string, body, into any) error {
	text, err := c.answer(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.strange()
	}
	return nil
}

// answer makes a call and returns the answer. A status other than 200 is an error.
func (c *client) answer(ctx context.Context, method, path string, body any) ([]byte, error) {
	if err := fromEnvironment(c.flags); err != nil {
		return nil, err
	}
	token, err := adminToken(&access.Admin{}, c.adminTokenFile)
	if err == nil && token == "" {
		token, err = readToken(&access.API{}, "")
	}
	if err != nil {
		return nil, err
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.url()+path, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if name := operator(); name != "" {
		r.Header.Set("Sluice-Operator", name)
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(r)
	if err != nil {
		return nil, c.unanswered(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, c.unanswered(err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(res.StatusCode, text)
	}
	return text, nil
}

// url returns the URL of the server. A server at a Unix socket has the name localhost, and TLS if the flags of TLS are
// given.
func (c *client) url() string {
	switch {
	case !strings.HasPrefix(string(c.server), "unix:"):
		return strings.TrimRight(string(c.server), "/")
	case c.ca != "" || c.cert != "":
		return "https://localhost"
	default:
		return "http://localhost"
	}
}

// target is a flag: the URL of a running server, or its Unix socket.
type target string

func (t *target) String() string { return string(*t) }
func (t *target) Type() string   { return "url" }

// Set checks a URL, or the address of a Unix socket.
func (t *target) Set(text string) error {
	socket, err := accept.ParseSocket(text)
	if err == nil && socket == "" {
		var u upstream
		err = u.Set(text)
	}
	if err != nil {
		return err
	}
	*t = target(text)
	return nil
}

// operator returns the name of the user that runs the command. The audit log of the server has it.
func operator() string {
	who, err := user.Current()
	if err != nil {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return printable(who.Username)
	}
	return printable(who.Username + "@" + host)
}

// strange is the error of an answer that is not from Sluice.
func (c *client) strange() error {
	return fmt.Errorf("the answer of %s is not from Sluice; give the URL of the admin listener, or of the API", c.server)
}

// noRedirect follows no redirection, because its target would get the token.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *client) transport() (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s holds no certificate; give a PEM file", c.ca)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	if socket, _ := accept.ParseSocket(string(c.server)); socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	switch {
	case c.cert == "" && c.key == "":
	case c.cert == "" || c.key == "":
		return nil, errors.New("--cert and --key are given together; give both or none")
	default:
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w; give the PEM files of a certificate and its key", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// unanswered is the error of a call without an answer.
func (c *client) unanswered(err error) error {
	var dial *net.OpError
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err // the message has the URL anyway
	}
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("no server answers at %s: %w; give its address: --server URL, --server unix:PATH or SLUICE_SERVER", c.server, err)
	}
	return fmt.Errorf("%s: %w", c.server, err)
}

// refused is the error of a call that the server refused.
func (c *client) refused(status int, text []byte) error {
	var p wire.Problem
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		p.Detail = strings.TrimSpace(string(text[:min(len(text), 300)]))
		if status == http.StatusNotFound {
			p.Detail, p.Remedy = "There is no such call.", "give the URL of the admin listener, or of the API"
		}
	}
	if status == http.StatusUnauthorized {
		p.Remedy = "put the admin token into SLUICE_ADMIN_TOKEN, or name a file with --admin-token-file"
	}
	what := fmt.Sprintf("the server answers %d: %s", status, printable(strings.TrimRight(p.Detail, ".")))
	if p.Remedy != "" {
		what += "; " + printable(p.Remedy)
	}
	return errors.New(what)
}

// printable removes characters that move a cursor, turn the text or cannot be seen.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
}
