// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// ParseAdmissionObject parses a pod or a workload in the form that the API server sends
// to admission: JSON, possibly with fields of a newer version. Only the fields that
// affect DNS and host names are decoded, so that the others may be large or have another
// type. known is false for kinds without pods. A repeated field is an error: an API server encodes
// each object itself, and never repeats one.
func ParseAdmissionObject(apiVersion, kind string, js []byte) (w Workload, known bool, err error) {
	decode, known := workloadDecoders[objectType{apiVersion, kind}]
	if !known {
		return Workload{}, false, nil
	}
	selected, ok := objectFields[kind]
	if !ok {
		selected = objectFields["others"]
	}
	var reduced reduction
	if err := reduced.read(document.NewReader("", js), selected); err != nil {
		return Workload{}, true, err
	}
	w, problems := decode(reduced.Bytes())
	if len(problems) > 0 {
		return Workload{}, true, errors.Join(problems...)
	}
	w.Kind, w.Pod.Namespace, w.Pod.Spec.DNSConfig = kind, w.Namespace, reduced.config
	SetDefaults(&w.Pod.Spec)
	return w, true, nil
}

// reduction is the part of an object that is decoded, in JSON. The dnsConfig, which may have megabytes,
// is not in it: it would be decoded twice.
type reduction struct {
	bytes.Buffer
	config *corev1.PodDNSConfig
}

// fields are the members of an object that are decoded, by name, or by the part of the name up to its
// slash. nil is the whole value.
type fields map[string]fields

var (
	metadataFields = fields{"name": nil, "generateName": nil, "namespace": nil, "annotations": {"dnsconfigurer.dev/": nil}}

	podFields = fields{
		"dnsPolicy": nil, "dnsConfig": nil, "hostNetwork": nil, "hostname": nil, "hostnameOverride": nil, "subdomain": nil,
		"setHostnameAsFQDN": nil, "os": {"name": nil}, "nodeSelector": {corev1.LabelOSStable: nil},
		"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": nil}}},
	}

	templateFields = fields{"metadata": metadataFields, "spec": podFields}

	jobFields = fields{"template": templateFields, "completionMode": nil, "completions": nil}

	// objectFields are the fields of objects by kind.
	objectFields = map[string]fields{
		"Pod":         {"metadata": metadataFields, "spec": podFields},
		"PodTemplate": {"metadata": metadataFields, "template": templateFields},
		"Job":         {"metadata": metadataFields, "spec": jobFields},
		"CronJob":     {"metadata": metadataFields, "spec": {"jobTemplate": {"spec": jobFields}}},
		"StatefulSet": {"metadata": metadataFields,
			"spec": {"template": templateFields, "replicas": nil, "serviceName": nil, "ordinals": {"start": nil}}},
		"others": {"metadata": metadataFields, "spec": {"template": templateFields}},
	}
)

// read reads a value and writes its fields. A value that is not an object is written as a whole, for the
// error of the decoder.
func (w *reduction) read(r *document.Reader, f fields) error {
	if f == nil || !r.IsObject() {
		value, err := r.Raw()
		w.Write(value)
		return err
	}
	w.WriteByte('{')
	separator := ""
	err := r.Members(func(key string) error {
		member, selected := f[key]
		if prefix, _, found := strings.Cut(key, "/"); found && !selected {
			member, selected = f[prefix+"/"]
		}
		if !selected {
			return r.Skip()
		}
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		w.WriteString(separator + string(name) + ":")
		separator = ","
		switch key {
		case "dnsConfig":
			return w.readConfig(r)
		case "nodeSelectorTerms":
			return w.readTerms(r)
		}
		return w.read(r, member)
	})
	w.WriteByte('}')
	return err
}

// The following functions read the lists of a pod that may have hundreds of thousands of
// values. The API server limits them only by the size of the object, 3 MB. Where a few
// values decide, the others are not decoded: the API server has checked their types.

// maxEntries is the number of entries of the longest list that is decoded. An object of 3 MiB,
// the largest that the API server accepts, has at most as many options: one takes five bytes in
// protobuf. Without the limit, clients other than an API server could make the webhook exceed
// its memory.
const maxEntries = 3 << 20 / 5

// tooLong returns the error of a list with more than maxEntries, after that many were read.
func tooLong(r *document.Reader) error {
	return r.Error("is followed by more entries than an object of 3 MiB can have")
}

// readConfig decodes a dnsConfig completely, and writes null instead of it.
func (w *reduction) readConfig(r *document.Reader) error {
	w.WriteString("null")
	js, err := r.Raw()
	if err != nil || string(js) == "null" {
		return err
	}
	w.config = new(corev1.PodDNSConfig)
	config := document.NewReader("dnsConfig", js)
	sized := false // a client other than an API server can repeat options thousands of times
	return config.Members(func(key string) (err error) {
		switch key {
		case "nameservers":
			w.config.Nameservers, err = readStrings(config)
		case "searches":
			w.config.Searches, err = readStrings(config)
		case "options":
			expected := 0
			if !sized {
				const short = len(`{"name":"a"},`)
				sized, expected = true, min(bytes.Count(js, []byte("{")), len(js)/short, maxEntries)
			}
			w.config.Options, err = readOptions(config, expected)
		default:
			err = config.Skip()
		}
		return err
	})
}

func readStrings(r *document.Reader) (list []string, err error) {
	if !r.IsNull() {
		list = []string{}
	}
	err = r.Items(func() error {
		if len(list) == maxEntries {
			return tooLong(r)
		}
		s, err := r.String()
		list = append(list, s)
		return err
	})
	return list, err
}

// readOptions reads about as many options as expected.
func readOptions(r *document.Reader, expected int) (list []corev1.PodDNSConfigOption, err error) {
	if !r.IsNull() {
		list = make([]corev1.PodDNSConfigOption, 0, expected)
	}
	err = r.Items(func() error {
		if len(list) == maxEntries {
			return tooLong(r)
		}
		var o corev1.PodDNSConfigOption
		err := r.Members(func(key string) (err error) {
			switch key {
			case "name":
				o.Name, err = r.String()
			case "value":
				o.Value, err = readOptional(r)
			default:
				err = r.Skip()
			}
			return err
		})
		list = append(list, o)
		return err
	})
	return list, err
}

func readOptional(r *document.Reader) (*string, error) {
	if r.IsNull() {
		return nil, r.Skip()
	}
	s, err := r.String()
	return &s, err
}

// readTerms writes the one of nodeSelectorTerms that decides whether all require Windows: the first
// one that does not, or else the last one. Of a term it reads the expressions up to the one that
// requires Windows, and writes only that.
func (w *reduction) readTerms(r *document.Reader) error {
	terms := []corev1.NodeSelectorTerm{}
	err := r.Items(func() error {
		if len(terms) > 0 && allowsOther(terms[0]) {
			return r.Skip()
		}
		term, err := readOSTerm(r)
		terms = []corev1.NodeSelectorTerm{term}
		return err
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(terms)
}

func readOSTerm(r *document.Reader) (term corev1.NodeSelectorTerm, err error) {
	err = r.Members(func(key string) error {
		if key != "matchExpressions" {
			return r.Skip()
		}
		term.MatchExpressions = nil
		return r.Items(func() error {
			if term.MatchExpressions != nil {
				return r.Skip()
			}
			requirement, err := readOSRequirement(r)
			if requiresWindows(requirement) {
				term.MatchExpressions = []corev1.NodeSelectorRequirement{requirement}
			}
			return err
		})
	})
	return term, err
}

func readOSRequirement(r *document.Reader) (q corev1.NodeSelectorRequirement, err error) {
	err = r.Members(func(key string) (err error) {
		switch key {
		case "key":
			q.Key, err = r.String()
		case "operator":
			var operator string
			operator, err = r.String()
			q.Operator = corev1.NodeSelectorOperator(operator)
		case "values":
			q.Values, err = readStrings(r)
		default:
			err = r.Skip()
		}
		return err
	})
	return q, err
}
