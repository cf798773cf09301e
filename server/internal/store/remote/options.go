package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// topologyInterval is how often the client looks up which nodes serve. Clusters and sentinels also
// announce changes, but not to a client that was cut off.
const topologyInterval = 5 * time.Second

// clientOptions returns the options of a client, without its connections.
func clientOptions(f *Settings) (o rueidis.ClientOption, err error) {
	o = rueidis.ClientOption{
		InitAddress:       f.Addresses,
		Username:          f.User,
		SelectDB:          f.Database,
		ClientName:        "sluice",
		ForceSingleClient: !f.Cluster && f.Sentinel == nil,
		DisableCache:      true,                         // there are no reads to cache
		DisableRetry:      true,                         // a call whose outcome is unknown is not repeated
		ClientSetInfo:     rueidis.DisableClientSetInfo, // the least privileged user must not need it
		// Rueidis also ends connections that are silent for so long; by default, for ten seconds.
		ConnWriteTimeout: max(10*rueidis.DefaultTCPKeepAlive, f.Deadline),
	}
	var errs [3]error
	o.Password, errs[0] = secret.Read("store.redis.password", f.PasswordFile, f.PasswordEnv)
	o.TLSConfig, errs[1] = redisTLS(&f.TLS)
	switch {
	case f.Sentinel != nil:
		o.InitAddress = f.Sentinel.Addresses
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: f.Sentinel.Master, Username: f.Sentinel.User, ClientName: o.ClientName, TLSConfig: o.TLSConfig,
			TopologyRefreshInterval: topologyInterval,
		}
		o.Sentinel.Password, errs[2] = secret.Read("store.redis.sentinel.password", f.Sentinel.PasswordFile, f.Sentinel.PasswordEnv)
	case f.Socket != "":
		o.InitAddress = []string{f.Socket}
	case f.Cluster:
		o.ClusterOption.ShardsRefreshInterval = topologyInterval
	}
	return o, errors.Join(errs[:]...)
}

// storeOptions returns the options of the store over the client.
func storeOptions(f *Settings) (o redisstore.Options, err error) {
	o.Prefix = f.Prefix
	if h := f.HashKeys; h != nil {
		text, err := secret.ReadLong("store.redis.hash_keys.secret", h.SecretFile, h.SecretEnv)
		if err != nil {
			return o, err
		}
		o.Secret = []byte(text)
	}
	if f.Tenant > 0 {
		o.Tenant = func(k sluice.Key) string {
			if parts := k.Parts(); len(parts) >= f.Tenant {
				return parts[f.Tenant-1]
			}
			return k.Text()
		}
	}
	return o, nil
}

// redisTLS reads the authorities and the client certificate; nil without TLS. They are read again for each new client,
// and not before.
func redisTLS(f *TLS) (*tls.Config, error) {
	if *f == (TLS{}) {
		return nil, nil //nolint:nilnil // TLS may be off
	}
	return secret.ClientTLS("store.redis.tls", &secret.TLS{CA: f.CA, Cert: f.Cert, Key: f.Key, ServerName: f.ServerName})
}

// dialer returns the dial function of a client, whose connections end with life. It notes the address of each
// attempt.
func dialer(life context.Context, network string, note func(address string)) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		note(address)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		var conn net.Conn
		var err error
		if config != nil {
			conn, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, address)
		} else {
			conn, err = d.DialContext(ctx, network, address)
		}
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(life, func() { _ = conn.Close() }) // readers get an error
		return &mortalConn{conn, stop}, nil
	}
}

// mortalConn is a connection that ends with a context; stop detaches it from the context.
type mortalConn struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (c *mortalConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// hopeless reports whether an error will stay until somebody changes a configuration, ours or the server's. A
// program that starts with it should report it and end.
func hopeless(err error) bool {
	var own *misfitError
	var server *redisstore.MisfitError
	if errors.As(err, &own) || errors.As(err, &server) {
		return true
	}
	text := replied(err)
	for _, sign := range []string{
		"NOAUTH", "WRONGPASS", "NOPERM", "READONLY", "AUTH <password>", "invalid password", "unknown command",
		"DB index is out of range", "SELECT is not allowed", "cluster support disabled", noMaster,
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var noTLS tls.RecordHeaderError
	return errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &noTLS)
}

// noMaster is the reply of sentinels to an unknown name.
const noMaster = "No such master"

// replied returns the reply of the server in an error, empty if the error has none.
func replied(err error) string {
	var reply *redisstore.ServerError
	if errors.As(err, &reply) {
		return reply.Text
	}
	var answer *rueidis.RedisError
	if errors.As(err, &answer) {
		return answer.Error()
	}
	return ""
}

// misfitError is a configuration that does not fit the server.
type misfitError struct{ err error }

func (e *misfitError) Error() string { return e.err.Error() }
func (e *misfitError) Unwrap() error { return e.err }
