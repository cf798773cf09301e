package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

// scaledObject is what KEDA reads of one.
type scaledObject struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ScaleTargetRef  struct{ Name string } `yaml:"scaleTargetRef"`
		MinReplicaCount int                   `yaml:"minReplicaCount"`
		MaxReplicaCount int                   `yaml:"maxReplicaCount"`
		Triggers        []struct {
			Type       string
			MetricType string `yaml:"metricType"`
			Metadata   map[string]string
		}
	}
}

// The ScaledObject that the documentation shows is answered by the configuration that it shows, and the metric
// is there under the name that it says.
func TestDocumentedScaledObject(t *testing.T) {
	text, err := os.ReadFile("../../../docs/scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	var object scaledObject
	var configurations []*policyfile.File
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		if strings.HasPrefix(string(m[1]), "apiVersion:") {
			if err := yaml.UnmarshalWithOptions(m[1], &object, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		f, err := policyfile.Parse("docs/scale-out.md", m[1])
		if err != nil {
			t.Fatal(err)
		}
		configurations = append(configurations, f)
	}
	if len(configurations) != 2 || object.Kind != "ScaledObject" || len(object.Spec.Triggers) != 1 ||
		object.Spec.Triggers[0].Type != "external-push" || object.Spec.Triggers[0].Metadata["scalerAddress"] == "" {
		t.Fatalf("%d configurations, and %+v", len(configurations), object)
	}
	f := configurations[0]
	if f.Listen.Keda.Off() || configurations[1].ScaleOut.Webhook == nil {
		t.Fatal("the configurations have no KEDA or no webhook")
	}
	f.Listen = parse(t, free).Listen
	f.Listen.Keda.Address = "127.0.0.1:0"
	r := start(t, f, nil)
	keda := externalscaler.NewExternalScalerClient(r.dial(insecure.NewCredentials()))
	spec, err := keda.GetMetricSpec(r.patient(), &externalscaler.ScaledObjectRef{Name: object.Metadata.Name, ScalerMetadata: object.Spec.Triggers[0].Metadata})
	if err != nil {
		t.Fatal(err)
	}
	if m := spec.GetMetricSpecs()[0]; !strings.Contains(string(text), `"metricName": "`+m.GetMetricName()+`"`) || m.GetTargetSizeFloat() != 0.8 {
		t.Errorf("the documentation tells of another metric than %v", m)
	}
	if got := r.figure(`sluice_rule_pressure_ratio{rule="one-replica"}`); got != "0" {
		t.Errorf("the metric is %s", got)
	}
	call := regexp.MustCompile(`(?s)grpcurl -plaintext -d '(.*?)'`).FindSubmatch(text)
	if call == nil {
		t.Fatal("the documentation shows no call")
	}
	var q externalscaler.GetMetricsRequest
	if err := protojson.Unmarshal(call[1], &q); err != nil {
		t.Fatal(err)
	}
	if values, err := keda.GetMetrics(r.patient(), &q); err != nil || len(values.GetMetricValues()) != 1 {
		t.Errorf("the call that the documentation shows is answered %v, %v", values, err)
	}
}
