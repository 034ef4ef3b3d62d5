{{- define "mistbow.name" -}}
{{- printf "%s" .Release.Name | trunc 24 | trimSuffix "-" -}}
{{- end -}}

{{- define "mistbow.labels" -}}
app.kubernetes.io/name: mistbow
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The labels that select the pods of a service: root, component, and the site unless empty. */}}
{{- define "mistbow.selector" -}}
app.kubernetes.io/name: mistbow
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .site }}
mistbow.io/site: {{ . }}
{{- end }}
{{- end -}}

{{- define "mistbow.secret" -}}
{{- .Values.token.existingSecret | default (printf "%s-token" (include "mistbow.name" .)) -}}
{{- end -}}

{{- define "mistbow.agentUrl" -}}
{{- printf "http://%s-storage-%s:8300" (include "mistbow.name" .root) .site -}}
{{- end -}}

{{/* The security of a pod: an unprivileged user that the image also has. */}}
{{- define "mistbow.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "mistbow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
The environment of each service: its identity and the tokens of people, or the token of all; and the
settings of all services. Takes root, and kind: of the identity.
*/}}
{{- define "mistbow.env" -}}
{{- if .root.Values.identities.enabled -}}
- {name: MISTBOW_IDENTITY_FILE, value: /run/secrets/mistbow/{{ .kind }}.identity}
- {name: MISTBOW_TOKENS_FILE, value: /run/secrets/mistbow/tokens.json}
{{- else -}}
- {name: MISTBOW_TOKEN_FILE, value: /run/secrets/mistbow/token}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{/* Whether the service lives, and whether it can serve: its port. */}}
{{- define "mistbow.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
  initialDelaySeconds: 30
readinessProbe:
  exec: {command: [python3, -IS, /opt/mistbow/health.py, {{ . | quote }}]}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* The volume of what a service proves: root, component, site, and the kind of its identity. */}}
{{- define "mistbow.trustVolume" -}}
- name: trust
  secret:
    defaultMode: 0440
    {{- if .root.Values.identities.enabled }}
    secretName: {{ printf "%s-%s-%s" (include "mistbow.name" .root) .component .site }}
    items:
      - {key: {{ .kind }}.identity, path: {{ .kind }}.identity}
      - {key: tokens.json, path: tokens.json}
    {{- else }}
    secretName: {{ include "mistbow.secret" .root }}
    items: [{key: {{ .root.Values.token.key }}, path: token}]
    {{- end }}
{{- end -}}

{{- define "mistbow.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The image of a role (storage, worker, enabler): its own with image.perRole, or that of all. */}}
{{- define "mistbow.image" -}}
{{- $image := .root.Values.image -}}
{{ $image.repository }}{{ if $image.perRole }}-{{ .role }}{{ end }}:{{ $image.tag }}
{{- end }}
