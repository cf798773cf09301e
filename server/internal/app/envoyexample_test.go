package app

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	limitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // for envoy.yml
	managerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // for envoy.yml
	"github.com/goccy/go-yaml"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// validated is a message of Envoy's configuration.
type validated interface {
	proto.Message
	ValidateAll() error
}

// read reads a message as Envoy does, which refuses unknown fields and invalid values.
func read[M validated](t *testing.T, text []byte, m M) M {
	t.Helper()
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("Envoy cannot read the message %s: %v", text, err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatalf("Envoy refuses the message %s: %v", text, err)
	}
	return m
}

// inside reads a message that is inside another one with its type.
func inside[M validated](t *testing.T, a *anypb.Any, m M) M {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEnvoyExample reads the example for Envoy by the types of Envoy, and calls Sluice with its own example as Envoy would.
func TestEnvoyExample(t *testing.T) {
	t.Parallel()
	const folder = "../../../examples/envoy/"
	text, err := os.ReadFile(folder + "envoy.yml")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Resources struct{ Listeners, Clusters []json.RawMessage } `json:"static_resources"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	listener := read(t, file.Resources.Listeners[0], &listenerpb.Listener{})
	manager := inside(t, listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &managerpb.HttpConnectionManager{})
	auth := inside(t, manager.GetHttpFilters()[0].GetTypedConfig(), &authpb.ExtAuthz{})
	limit := inside(t, manager.GetHttpFilters()[1].GetTypedConfig(), &limitpb.RateLimit{})
	addresses := map[string]string{}
	for _, c := range file.Resources.Clusters {
		cluster := read(t, c, &clusterpb.Cluster{})
		at := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		addresses[cluster.GetName()] = fmt.Sprintf("%s:%d", at.GetAddress(), at.GetPortValue())
	}
	mine, err := os.ReadFile(folder + "sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := parse(t, string(mine))
	if w := f.Warnings(); len(w) > 0 {
		t.Errorf("the example has warnings: %q", w)
	}
	for _, name := range []string{auth.GetGrpcService().GetEnvoyGrpc().GetClusterName(), limit.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName()} {
		if addresses[name] != f.Listen.GRPC.Address {
			t.Errorf("Envoy calls %q at %q, and Sluice is at %q", name, addresses[name], f.Listen.GRPC.Address)
		}
	}
	// The action remote_address of the route makes a descriptor of this key.
	if manager.GetRouteConfig().GetVirtualHosts()[0].GetRateLimits()[0].GetActions()[0].GetRemoteAddress() == nil || limit.GetDomain() != "edge" {
		t.Error("the route sends other descriptors than this test")
	}
	r := start(t, parse(t, strings.NewReplacer("127.0.0.1:9090", "127.0.0.1:0", "127.0.0.1:8082", "127.0.0.1:0").Replace(string(mine))), nil)
	conn := r.dialGRPC(insecure.NewCredentials())
	passed := 0
	for range 60 {
		if r.shouldLimit(conn, "192.0.2.1") == "OK" {
			passed++
		}
	}
	if passed < 20 || passed == 60 {
		t.Errorf("%d of 60 calls at once pass", passed)
	}
}
