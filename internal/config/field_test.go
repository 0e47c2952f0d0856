// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"maps"
	"reflect"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// apiFields returns the addresses of the fields of a v1alpha1 configuration in the order of
// the file, by path.
func apiFields(v reflect.Value, prefix string) (paths []string, at map[string]any) {
	at = map[string]any{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch field := v.Field(i); {
		case v.Type().Field(i).Name == "TypeMeta":
		case name == "": // embedded
			more, below := apiFields(field, prefix)
			paths = append(paths, more...)
			maps.Copy(at, below)
		case field.Kind() == reflect.Struct:
			more, below := apiFields(field, prefix+name+".")
			paths = append(paths, more...)
			maps.Copy(at, below)
		default:
			paths = append(paths, prefix+name)
			at[prefix+name] = field.Addr().Interface()
		}
	}
	return paths, at
}

// testFields checks that every field of the file has one row, in the order of the file, and
// that At returns its address.
func testFields[C any](t *testing.T, k *Kind[C]) {
	t.Helper()
	c := new(C)
	paths, at := apiFields(reflect.ValueOf(c).Elem().FieldByName(k.Name), "")
	var got []string
	for _, f := range k.Fields {
		got = append(got, f.Path)
		if want := at[f.Path]; want != f.At(c) {
			t.Errorf("%s: %s: At returns %T, which is not the address of the field", k.Name, f.Path, f.At(c))
		}
		if f.Flag != "" && f.Usage == "" {
			t.Errorf("%s: --%s has no help text", k.Name, f.Flag)
		}
	}
	if diff := gocmp.Diff(paths, got); diff != "" {
		t.Errorf("%s: fields of the file and rows (-file +rows):\n%s", k.Name, diff)
	}
}

func TestKind_Fields(t *testing.T) {
	testFields(t, ShimKind())
	testFields(t, DNSKind())
	testFields(t, AgentKind())
	testFields(t, NodeCacheKind())
	testFields(t, WebhookKind())
}

// testDefaults checks that an empty file is the one that `config defaults` prints.
func testDefaults[C any](t *testing.T, k *Kind[C]) {
	t.Helper()
	text, err := v1alpha1.Defaults(k.Name)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := k.parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if problems := k.check(&printed, inField); problems != nil {
		t.Errorf("%s: %v", k.Name, problems)
	}
	var empty C
	if problems := k.check(&empty, inField); problems != nil {
		t.Errorf("%s: an empty file: %v", k.Name, problems)
	}
	for _, f := range k.Fields {
		if diff := gocmp.Diff(f.At(&printed), f.At(&empty), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s (-printed +empty file):\n%s", k.Name, f.Path, diff)
		}
	}
}

func TestKind_Defaults(t *testing.T) {
	testDefaults(t, ShimKind())
	testDefaults(t, DNSKind())
	testDefaults(t, AgentKind())
	testDefaults(t, NodeCacheKind())
	testDefaults(t, WebhookKind())
}

// TestDefaults_Packages compares the defaults of v1alpha1 with those of the packages.
func TestDefaults_Packages(t *testing.T) {
	suffix, err := fqdn.ParseName(v1alpha1.DefaultAutopathSuffix)
	if err != nil || suffix != dnsserver.DefaultAutopathSuffix || v1alpha1.DefaultAutopathSuffix != policy.DefaultAutopathSuffix {
		t.Errorf("autopath suffix %s, %v", suffix, err)
	}
	if v1alpha1.DefaultEDNSOption != autopath.DefaultOption {
		t.Errorf("EDNS0 option %d", v1alpha1.DefaultEDNSOption)
	}
	if m, err := cri.ParseMode(""); err != nil || m != cri.Mode(ShimKind().Defaults().ShimConfiguration.Mode) {
		t.Errorf("mode %s, %v", m, err)
	}
}

// values are one value of each flag.
var values = map[string]flagValue{
	"listen":           {file: `["192.0.2.1:53"]`},
	"http":             {file: `":1"`},
	"kubeconfig":       {file: "k"},
	"manifests":        {file: "[m]"},
	"snapshot":         {file: "s"},
	"snapshot-wait":    {file: "1s"},
	"snapshot-max-age": {file: "1h"},
	"cluster-domain":   {file: "d"},
	"reverse-cidr":     {file: "[10.0.0.0/8]"},
	"pods":             {file: "verified"},
	"ttl":              {file: "0"},
	"upstream":         {file: "[192.0.2.1]"},
	"resolv-conf":      {file: `""`},
	"upstream-policy":  {file: "random"},
	"stub-domain":      {file: "[{zone: z, servers: [192.0.2.1, 192.0.2.2]}]", arg: "z=192.0.2.1,192.0.2.2"},
	"host-suffix":      {file: "[h]"},
	"autopath-suffix":  {file: "s"},
	"edns-option":      {file: "65001"},
	"autopath-service": {file: "n/s"},
	"autopath-network": {file: "[203.0.113.0/24]"},
	"lameduck":         {file: "1s"},
	"log-format":       {file: "json"},
	"interface":        {file: "i"},
	"notrack":          {file: "disabled"},
	"cluster-dns":      {file: "[192.0.2.2]"},
	"runtime-endpoint": {file: "r"},
	"kubelet-config":   {file: "/k"},

	"kubelet-config-dir": {file: "/k.d"},
	"in-cluster":         {file: "true"},
	"node-ip":            {file: "[192.0.2.3]"},
	"node-name":          {file: "worker"},
	"tls-cert":           {file: "c"},
	"tls-key":            {file: "k"},
	"ignore":             {file: "[old-glibc-search]"},
	"deny-on":            {file: "never"},
}

// flagValue is one value of a flag: in the file, and on the command line if that differs.
type flagValue struct{ file, arg string }

// testFlags checks that every flag sets what its field in the file sets. Values in other
// replace those in values.
func testFlags[C any](t *testing.T, k *Kind[C], other map[string]flagValue) {
	t.Helper()
	for _, f := range k.Fields {
		if f.Flag == "" {
			continue
		}
		value, ok := other[f.Flag]
		if !ok {
			value, ok = values[f.Flag]
		}
		if !ok {
			t.Errorf("--%s has no value in the test", f.Flag)
			continue
		}
		testFlag(t, k, f, value)
	}
}

func testFlag[C any](t *testing.T, k *Kind[C], f Field[C], value flagValue) {
	t.Helper()
	text := f.Path + ": " + value.file + "\n"
	if outer, inner, nested := strings.Cut(f.Path, "."); nested {
		text = outer + ": {" + inner + ": " + value.file + "}\n"
	}
	want, err := k.FromFile(newFile(t, k.Name, text)).read()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := k.FromFlags(flags)
	if err := flags.Parse([]string{"--" + f.Flag + "=" + cmp.Or(value.arg, strings.Trim(value.file, `[]"`))}); err != nil {
		t.Fatal(err)
	}
	var got C
	source.applyFlags(&got)
	for _, other := range k.Fields {
		if diff := gocmp.Diff(other.At(&want), other.At(&got)); diff != "" {
			t.Errorf("--%s, %s (-file +flag):\n%s", f.Flag, other.Path, diff)
		}
	}
}

func TestSource_Flags(t *testing.T) {
	testFlags(t, DNSKind(), nil)
	testFlags(t, NodeCacheKind(), nil)
	testFlags(t, WebhookKind(), map[string]flagValue{"listen": {file: `":1"`}})
	testFlags(t, ShimKind(), map[string]flagValue{"listen": {file: "l"}, "manifests": {file: "m"}})
	testFlags(t, AgentKind(), map[string]flagValue{"listen": {file: "l"}, "manifests": {file: "m"}})
}
