// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

const dropInHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// mergeDropIns merges texts into a configuration with a value in every field.
func mergeDropIns(texts ...string) (kube.KubeletConfiguration, map[string]string, error) {
	base := kube.KubeletConfiguration{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", ResolvConf: new("/r")}
	var dropIns []kube.KubeletDropIn
	for i, text := range texts {
		dropIns = append(dropIns, kube.KubeletDropIn{Path: fmt.Sprintf("%d.conf", i), Data: []byte(text)})
	}
	return kube.MergeKubeletDropIns(base, dropIns)
}

func TestMergeKubeletDropIns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"none", nil, `[10.96.0.10] cluster.local "/r" map[]`},
		{"another field", []string{dropInHead + "maxPods: 5\n"}, `[10.96.0.10] cluster.local "/r" map[]`},
		{"a list replaces", []string{dropInHead + "clusterDNS: [192.0.2.1, 192.0.2.2]\n"},
			`[192.0.2.1 192.0.2.2] cluster.local "/r" map[clusterDNS:0.conf]`},
		{"the last wins", []string{dropInHead + "clusterDomain: a\n", dropInHead + "clusterDomain: b\n"},
			`[10.96.0.10] b "/r" map[clusterDomain:1.conf]`},
		{"empty values", []string{dropInHead + "clusterDNS: []\nclusterDomain: ''\nresolvConf: ''\n"},
			`[]  "" map[clusterDNS:0.conf clusterDomain:0.conf resolvConf:0.conf]`},
		{"null removes", []string{dropInHead + "clusterDNS: null\nclusterDomain: null\nresolvConf: null\n"}, `[]  none map[]`},
		{"another case counts", []string{dropInHead + "clusterdns: [192.0.2.1]\n"},
			`[192.0.2.1] cluster.local "/r" map[clusterDNS:0.conf]`},
		{"an upper case name comes first", []string{dropInHead + "ClusterDomain: a\n"},
			`[10.96.0.10] cluster.local "/r" map[clusterDomain:0.conf]`},
	} {
		got, origins, err := mergeDropIns(tt.texts...)
		resolvConf := "none"
		if got.ResolvConf != nil {
			resolvConf = fmt.Sprintf("%q", *got.ResolvConf)
		}
		if text := fmt.Sprintf("%v %s %s %v", got.ClusterDNS, got.ClusterDomain, resolvConf, origins); err != nil || text != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.name, text, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"":                            `1.conf: is "", must be`,
		"kind: Pod\napiVersion: v1\n": `1.conf: is "v1 Pod", must be`,
		dropInHead + "clusterDNS: [":  "1.conf: line ",
		dropInHead + "clusterDNS: []\nclusterDNS: []\n": "already set",
		dropInHead + "clusterDNS: 10.96.0.1\n":          "cannot unmarshal string",
	} {
		if _, _, err := mergeDropIns(dropInHead, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzMergeKubeletDropIns(f *testing.F) {
	f.Add("clusterDNS: [a]\nresolvConf: x\n", "clusterdns: null\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		_, _, _ = mergeDropIns(dropInHead+first, dropInHead+second)
	})
}
