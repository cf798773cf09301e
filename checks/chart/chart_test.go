package chart

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

const folder = "../../packaging/chart"

// serviceMonitor is the kind of the Prometheus operator, as far as the chart uses it.
type serviceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Authorization struct {
				Type        string `json:"type"`
				Credentials struct {
					Name string `json:"name"`
					Key  string `json:"key"`
				} `json:"credentials"`
			} `json:"authorization"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// kinds are the types of Kubernetes that the objects are decoded to.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                     func() any { return &appsv1.Deployment{} },
	"autoscaling/v2 HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any {
		return &serviceMonitor{}
	},
	"policy/v1 PodDisruptionBudget": func() any { return &policyv1.PodDisruptionBudget{} },
	"v1 ConfigMap":                  func() any { return &corev1.ConfigMap{} },
	"v1 Service":                    func() any { return &corev1.Service{} },
	"v1 ServiceAccount":             func() any { return &corev1.ServiceAccount{} },
}

// decode decodes the objects of a text strictly: an unknown field is an error. The keys are kinds.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, part)
		}
		if head.Kind == "" {
			continue
		}
		create := kinds[head.APIVersion+" "+head.Kind]
		if create == nil {
			t.Fatalf("no type for %s %s: add it to kinds", head.APIVersion, head.Kind)
		}
		object := create()
		if err := yaml.UnmarshalStrict([]byte(part), object, yaml.DisallowUnknownFields); err != nil {
			t.Fatalf("%s: %v in:\n%s", head.Kind, err, part)
		}
		if objects[head.Kind] != nil {
			t.Fatalf("two objects of the kind %s", head.Kind)
		}
		objects[head.Kind] = object
	}
	return objects
}

// render returns the manifests and the notes of the chart with values, as helm template does.
func render(values string) (manifests, notes string, err error) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		return "", "", err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return "", "", err
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "sluice", Namespace: "limits", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return "", "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", "", err
	}
	var text strings.Builder
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".txt") {
			notes = files[name]
		} else if made := strings.TrimSpace(files[name]); made != "" {
			fmt.Fprintf(&text, "---\n%s\n", made)
		}
	}
	return text.String(), notes, nil
}

// sluice returns the path of the program, and builds it on the first call.
func sluice(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-w", "-o", path, "./server/cmd/sluice")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building sluice: %v\n%s", err, out)
	}
	return path
}

// validate runs `sluice validate` on the files of a ConfigMap, with the container's variables in the mode for Envoy.
func validate(t *testing.T, program string, objects map[string]any) {
	t.Helper()
	files, ok := objects["ConfigMap"].(*corev1.ConfigMap)
	if !ok {
		return // a ConfigMap of the user's
	}
	dir := t.TempDir()
	for name, text := range files.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, env := dir, os.Environ()
	if files.Data["sluice.yaml"] != "" {
		path = filepath.Join(dir, "sluice.yaml")
	}
	for _, v := range objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env {
		env = append(env, v.Name+"="+v.Value)
	}
	cmd := exec.CommandContext(t.Context(), program, "validate", "--file-only", path)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sluice validate: %v\n%s\n%v", err, out, files.Data)
	}
}

// TestChartRendersAsItsGoldenFiles renders the chart with each testdata/*.yaml, compares with its golden
// file, decodes every object strictly, and lets
// sluice check the configuration.
func TestChartRendersAsItsGoldenFiles(t *testing.T) {
	program := sluice(t)
	cases, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(cases) < 5 {
		t.Fatalf("found the values %v (%v)", cases, err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			values, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text, notes, err := render(string(values))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(name, ".yaml") + ".golden"
			got := text + "--- NOTES\n" + notes
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != got {
				t.Errorf("%s is different (%v): compare, then run the test with -update; got:\n%s", golden, err, got)
			}
			objects := decode(t, text)
			restricted(t, objects)
			validate(t, program, objects)
		})
	}
}

// TestPlainManifests holds docs/kubernetes.yaml to have the effect of the chart with its default values. Only the labels of
// Helm, the namespace, the checksum and the version may differ.
func TestPlainManifests(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := render("")
	if err != nil {
		t.Fatal(err)
	}
	plain, chart := essence(t, decode(t, string(page))), essence(t, decode(t, made))
	if plain != chart {
		t.Errorf("docs/kubernetes.yaml has another effect than the chart:\n%s\nthe chart has:\n%s", plain, chart)
	}
}

// essence returns what has an effect in the chart's default objects, as YAML.
func essence(t *testing.T, objects map[string]any) string {
	t.Helper()
	var config map[string]any
	c := objects["ConfigMap"].(*corev1.ConfigMap)
	if err := yaml.UnmarshalStrict([]byte(c.Data["sluice.yaml"]), &config); err != nil || len(c.Data) != 1 {
		t.Fatalf("%v in %v", err, c.Data)
	}
	d := objects["Deployment"].(*appsv1.Deployment)
	d.Spec.Template.Annotations = nil
	image := &d.Spec.Template.Spec.Containers[0].Image
	*image, _, _ = strings.Cut(*image, ":")
	account := objects["ServiceAccount"].(*corev1.ServiceAccount)
	pdb := objects["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget)
	service := objects["Service"].(*corev1.Service)
	names := []string{c.Name, d.Name, account.Name, pdb.Name, service.Name}
	text, err := yaml.Marshal([]any{len(objects), names, config, d.Spec, account.AutomountServiceAccountToken, pdb.Spec, service.Spec})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// restricted fails unless the pod keeps to the restricted standard of Kubernetes, and has time to drain.
func restricted(t *testing.T, objects map[string]any) {
	t.Helper()
	pod := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec
	c := pod.Containers[0]
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod has the security context %v", s)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the container has the security context %v", s)
	}
	if *pod.AutomountServiceAccountToken {
		t.Error("the pod gets a token for Kubernetes")
	}
	if *pod.TerminationGracePeriodSeconds <= 35 {
		t.Errorf("the pod has %d s to drain, which takes 35", *pod.TerminationGracePeriodSeconds)
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("the container has no probes or no limit of memory: %v", c)
	}
}

// TestHelmLintIsClean runs helm lint in its strict mode. A chart needs no icon.
func TestHelmLintIsClean(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(folder, nil, "limits", &chartutil.DefaultCapabilities.KubeVersion).Messages {
		if !strings.Contains(m.Error(), "icon is recommended") {
			t.Errorf("helm lint found: %v", m)
		}
	}
}

// TestRefusedValues has values that the chart refuses, each with a part of the error.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"replicas: 3", "additional properties 'replicas' not allowed"},
		{"replicaCount: two", "/replicaCount"},
		{"redis: {uri: 'redis://a'}", "additional properties 'uri' not allowed"},
		{"redis: {url: 'http://a'}", "/redis/url"},
		{"redis: {url: 'redis://u:secret@a:6379'}", "redis.url has a password: put it into a secret"},
		{"redis: {url: 'redis://a', addresses: ['b:1']}", "give url or addresses, not both"},
		{"redis: {tls: true}", "redis: give url or addresses"},
		{"{redis: {url: 'redis://a'}, config: {store: memory}}", "give redis or config.store, not both"},
		{"redis: {existingSecret: {name: a, key: ''}}", "/redis/existingSecret/key"},
		{"config: {version: 2}", "/config/version"},
		{"config: {drain_timeout: 5s}", "give drain.delay and drain.timeout of the chart"},
		{"config: {listen: {proxy: off}}", "no listener can be reached from other pods"},
		{"config: {listen: {admin: off}}", "the probes call http://127.0.0.1:9090"},
		{"config: {listen: {admin: {address: '0.0.0.0:9090', tls: {}}}}", "the probes call http://127.0.0.1:9090"},
		{"serviceMonitor: {enabled: true}", "give admin.existingSecret.name"},
		{"envoy: {enabled: true}", "give envoy.config"},
		{"envoy: {enabled: true, config: {edge: {}}}", "invalid propertyName 'edge'"},
		{"{envoy: {enabled: true, config: {a.yaml: {domain: a}}}, redis: {url: 'redis://a/2'}}", "use database 0"},
		{"drain: {delay: 5s}", "/drain/delay"},
	} {
		_, _, err := render(c.values)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error %v does not contain %q", c.values, err, c.want)
		}
	}
}
