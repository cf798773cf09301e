package policyfile

import (
	"reflect"
	"testing"
	"time"
)

func TestScaleOut(t *testing.T) {
	const head = "version: 1\nrules: [{name: api, key: global, limit: {algorithm: token_bucket, rate: 5/s}}]\n"
	for _, c := range []struct {
		text string
		hook *Webhook
	}{
		{"", nil},
		{
			"scale_out: {webhook: {url: https://ops.example.com/hook?token=1, secret_env: HOOK_SECRET}}\n",
			&Webhook{URL: "https://ops.example.com/hook?token=1", SecretEnv: "HOOK_SECRET", Above: 0.8, Below: 0.5, For: 10 * time.Second},
		},
		{
			"scale_out: {webhook: {url: http://127.0.0.1:8000, secret_file: /run/s, rules: api, above: 90%, below: 0.9, for: 0, every: 1m}}\n",
			&Webhook{URL: "http://127.0.0.1:8000", SecretFile: "/run/s", Rules: []string{"api"}, Above: 0.9, Below: 0.9, Every: time.Minute},
		},
		{
			"scale_out: {webhook: {url: http://127.0.0.1:8000, secret_file: /run/s, above: 1500%, below: 10}}\n",
			&Webhook{URL: "http://127.0.0.1:8000", SecretFile: "/run/s", Above: 15, Below: 10, For: 10 * time.Second},
		},
	} {
		f, err := Parse("x.yaml", []byte(head+c.text))
		if err != nil {
			t.Errorf("%s%v", c.text, err)
			continue
		}
		if !reflect.DeepEqual(f.ScaleOut.Webhook, c.hook) {
			t.Errorf("%sgot %+v", c.text, f.ScaleOut.Webhook)
		}
	}
}
