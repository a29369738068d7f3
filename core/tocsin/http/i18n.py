"""Translations of the messages that people see; English texts are the keys, unknown texts pass unchanged."""

from __future__ import annotations

_ZH_CN = {
    "forbidden": "没有权限",
    "Username or password invalid": "用户名或密码错误",
    "No such UserGroup": "无此团队",
    "No such BusiGroup": "无此业务组",
    "No such AlertRule": "无此告警规则",
    "internal error": "系统内部错误",
    "reach login fail count": "登录失败次数过多，请稍后再试",
}
_ZH_HK = {
    "forbidden": "沒有權限",
    "Username or password invalid": "用戶名或密碼錯誤",
    "No such UserGroup": "無此團隊",
    "No such BusiGroup": "無此業務組",
    "No such AlertRule": "無此告警規則",
    "internal error": "系統內部錯誤",
    "reach login fail count": "登錄失敗次數過多，請稍後再試",
}
CATALOGUES: dict[str, dict[str, str]] = {"zh_CN": _ZH_CN, "zh_HK": _ZH_HK}


def translate(message: str, language: str) -> str:
    """Return ``message`` in ``language``, or as it is where no translation is known."""
    return CATALOGUES.get(language, {}).get(message, message)
