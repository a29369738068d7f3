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
    "No such user": "用户不存在",
    "No such token": "令牌不存在",
    "Username already exists": "用户名已存在",
    "Incorrect old password": "旧密码不正确",
    "roles empty": "角色不能为空",
    "Cannot delete the last admin user": "不能删除最后一个管理员",
    "token name already exists": "令牌名称已存在",
    "role name already exists": "角色名称已存在",
    "role not found": "角色不存在",
    "admin role can not be modified": "不能修改管理员角色",
    "UserGroup already exists": "团队已存在",
    "BusiGroup already exists": "业务组已存在",
    "Some UserGroup id not exists": "部分团队不存在",
    "members empty": "成员不能为空",
    "the business group must retain at least one team": "业务组至少保留一个团队",
}
_ZH_HK = {
    "forbidden": "沒有權限",
    "Username or password invalid": "用戶名或密碼錯誤",
    "No such UserGroup": "無此團隊",
    "No such BusiGroup": "無此業務組",
    "No such AlertRule": "無此告警規則",
    "internal error": "系統內部錯誤",
    "reach login fail count": "登錄失敗次數過多，請稍後再試",
    "No such user": "用戶不存在",
    "No such token": "令牌不存在",
    "Username already exists": "用戶名已存在",
    "Incorrect old password": "舊密碼不正確",
    "roles empty": "角色不能為空",
    "Cannot delete the last admin user": "不能刪除最後一個管理員",
    "token name already exists": "令牌名稱已存在",
    "role name already exists": "角色名稱已存在",
    "role not found": "角色不存在",
    "admin role can not be modified": "不能修改管理員角色",
    "UserGroup already exists": "團隊已存在",
    "BusiGroup already exists": "業務組已存在",
    "Some UserGroup id not exists": "部分團隊不存在",
    "members empty": "成員不能為空",
    "the business group must retain at least one team": "業務組至少保留一個團隊",
}
CATALOGUES: dict[str, dict[str, str]] = {"zh_CN": _ZH_CN, "zh_HK": _ZH_HK}


def translate(message: str, language: str) -> str:
    """Return ``message`` in ``language``, or as it is where no translation is known."""
    return CATALOGUES.get(language, {}).get(message, message)
