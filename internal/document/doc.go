// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package document decodes YAML and JSON and reports errors in terms of the file: its
// line, the path of the field, the type found and the type expected.
//
// The underlying decoders report errors in terms of Go: "cannot unmarshal number into Go
// struct field PodDNSConfigOption.spec.dnsConfig.options.value of type string" becomes
// "spec.dnsConfig.options[0].value: is a number, must be a string".
package document
