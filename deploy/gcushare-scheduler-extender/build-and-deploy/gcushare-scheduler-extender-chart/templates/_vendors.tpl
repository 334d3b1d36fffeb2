{{/* Generated from gcushare.vendors: make vendors. */}}
{{- define "gcushare-scheduler-extender.words" -}}
{
  "order": [
    "enflame",
    "aliyun"
  ],
  "vendors": {
    "enflame": {
      "nameSuffix": "",
      "nodeLabel": "enflame.com/gcushare",
      "memoryResource": "enflame.com/gcu-memory",
      "countResource": "enflame.com/gcu-count",
      "wholeCardResource": "enflame.com/gcu",
      "extenderResource": "enflame.gcushare.io/claimed-memory",
      "defaultUnit": "1",
      "library": "efml",
      "visible": "ENFLAME_VISIBLE_DEVICES",
      "cardDevice": "/dev/gcu",
      "toolNamespaces": [],
      "environment": [
        {
          "name": "ENFLAME_VISIBLE_DEVICES",
          "value": "all"
        }
      ],
      "urlPrefix": "/gcushare-scheduler",
      "inventory": "gcushare.io/enflame-inventory",
      "record": "enflame.com/gcu-device-id,enflame.com/gcu-device-memory,enflame.com/gcu-device-memory-request,enflame.com/gcu-device-assigned,enflame.com/gcu-device-assign-time",
      "claims": {
        "driver": "enflame.gcushare.io",
        "memoryClass": "gcu-memory.gcushare.io",
        "wholeClass": "gcu.gcushare.io",
        "templatePrefix": "gcu-memory"
      }
    },
    "aliyun": {
      "nameSuffix": "-aliyun",
      "nodeLabel": "gpushare",
      "memoryResource": "aliyun.com/gpu-mem",
      "countResource": "aliyun.com/gpu-count",
      "wholeCardResource": "nvidia.com/gpu",
      "extenderResource": "aliyun.gcushare.io/claimed-memory",
      "defaultUnit": "GiB",
      "library": "nvml",
      "visible": "NVIDIA_VISIBLE_DEVICES",
      "cardDevice": "/dev/nvidia",
      "toolNamespaces": [
        "gpu-operator",
        "nvidia-device-plugin",
        "nvidia-dra-driver-gpu",
        "nvidia-gpu-operator"
      ],
      "environment": [
        {
          "name": "NVIDIA_VISIBLE_DEVICES",
          "value": "all"
        },
        {
          "name": "NVIDIA_DRIVER_CAPABILITIES",
          "value": "utility"
        }
      ],
      "urlPrefix": "/gpushare-scheduler",
      "inventory": "gcushare.io/aliyun-inventory",
      "record": "ALIYUN_COM_GPU_MEM_IDX,ALIYUN_COM_GPU_MEM_DEV,ALIYUN_COM_GPU_MEM_POD,ALIYUN_COM_GPU_MEM_ASSIGNED,ALIYUN_COM_GPU_MEM_ASSUME_TIME",
      "claims": {
        "driver": "aliyun.gcushare.io",
        "memoryClass": "gpu-mem.gcushare.io",
        "wholeClass": "gpu.gcushare.io",
        "templatePrefix": "gpu-mem"
      }
    }
  },
  "policies": {
    "gcushare.io/node-policy": [
      "binpack",
      "expected-fill",
      "spread"
    ],
    "gcushare.io/card-policy": [
      "binpack",
      "expected-fill",
      "spread"
    ],
    "gcushare.io/whole-card-policy": [
      "close",
      "loose"
    ],
    "gcushare.io/compute-share": [
      "proportional"
    ],
    "gcushare.io/when-idle": [
      "keep",
      "evict"
    ],
    "gcushare.io/memory-unit": [
      "GiB",
      "MiB",
      "1",
      "0.1",
      "0.01",
      "0.001"
    ]
  }
}
{{- end -}}
