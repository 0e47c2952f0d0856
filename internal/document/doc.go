// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package document decodes YAML and JSON and says what is wrong in the words of who
// wrote it: the line of the file, the path of the field, the type that it has and the
// one that it must have.
//
// The decoders below it speak Go: "cannot unmarshal number into Go struct field
// PodDNSConfigOption.spec.dnsConfig.options.value of type string" is here
// "spec.dnsConfig.options[0].value: is a number, must be a string".
package document
